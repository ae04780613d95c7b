// Code paths that differ by GPU target, and the macro that exports a C function.
#pragma once

#define DEMO_API extern "C" __attribute__((visibility("default")))

namespace demo {

// Elements that one thread handles: the compiler of each target sees a constant of its own, so
// that machine code for the wrong target is not only absent but different.
__device__ constexpr int kPerThread =
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
    8;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    4;
#else
    2;
#endif

}  // namespace demo
