// The unit that takes memory: CUTLASS at its most generic, again for each GPU target.
#include <cutlass/tile.h>

#ifndef MOE_DEPTH
#define MOE_DEPTH 16
#endif

__global__ void route(int* out) { *out = cutlass::Tile<MOE_DEPTH, 0>::cost; }

void moe(int* out) { route<<<1, 1>>>(out); }
