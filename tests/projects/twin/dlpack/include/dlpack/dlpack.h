#pragma once
#define DLPACK_VERSION 80
