#include <cutlass/tile.h>
#include <flashinfer/warp.cuh>

static_assert(FLASHINFER_WARP == 32, "flashinfer lacks the patch of sgl-kernel");

template <int Size>
__global__ void multiply(float* out) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < Size; ++i) sum += __expf(out[i] * cutlass::Tile<4, 1>::cost);
  out[threadIdx.x] = sum;
}

void gemm(float* out, int size) {
  if (size == 64) multiply<64><<<1, FLASHINFER_WARP>>>(out);
  if (size == 256) multiply<256><<<1, FLASHINFER_WARP>>>(out);
}
