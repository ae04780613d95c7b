// Hopper's own instruction: no other target has it.
__global__ void attend() { asm volatile("wgmma.fence.sync.aligned;"); }

void fwd() { attend<<<1, 1>>>(); }
