// Which targets this library was compiled for.
#include "paths.cuh"

#define DEMO_TEXT_OF(...) #__VA_ARGS__
#define DEMO_TEXT(...) DEMO_TEXT_OF(__VA_ARGS__)

// nvcc defines __CUDA_ARCH_LIST__ for the host's side too: "1200", or "800,900,1200" and so on.
// Source: CUDA C++ Programming Guide, "__CUDA_ARCH_LIST__".
DEMO_API const char* demo_targets() { return DEMO_TEXT(__CUDA_ARCH_LIST__); }
