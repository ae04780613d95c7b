#include <numa.h>

int nodes(void) { return numa_available() < 0 ? 0 : numa_max_node() + 1; }
