#include <dlpack/dlpack.h>
#include <numa.h>

#include <mscclpp/numa.hpp>

int mscclpp::nodes() { return numa_available() < 0 ? 1 : numa_max_node() + 1; }
