#pragma once

namespace mscclpp {
int nodes();
}
