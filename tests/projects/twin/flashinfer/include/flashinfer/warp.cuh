#pragma once

#define FLASHINFER_WARP 16
