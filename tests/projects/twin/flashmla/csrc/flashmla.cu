#include <cutlass/arch/config.h>

#ifndef CUTLASS_ARCH_SM103_ENABLED
#error "config.h was not configured"
#endif

__global__ void attend(int* out) { *out = CUTLASS_ARCH_SM103_ENABLED; }
