// Sum of an array on the host's memory; returns the CUDA error number, 0 when all went well.
#include <cuda_runtime.h>

#include "paths.cuh"

namespace {

__global__ void Sum(int count, const float* x, float* sum) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * demo::kPerThread;
  float mine = 0.0f;
#pragma unroll
  for (int i = 0; i < demo::kPerThread; ++i) {
    if (first + i < count) mine += x[first + i];
  }
  for (int step = 16; step > 0; step /= 2) mine += __shfl_down_sync(0xffffffffu, mine, step);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

}  // namespace

DEMO_API int demo_sum(int count, const float* x, float* sum) {
  const size_t bytes = sizeof(float) * static_cast<size_t>(count);
  float* on_gpu = nullptr;
  if (cudaError_t error = cudaMalloc(&on_gpu, bytes + sizeof(float))) return error;
  float* total = on_gpu + count;
  cudaMemcpy(on_gpu, x, bytes, cudaMemcpyHostToDevice);
  cudaMemset(total, 0, sizeof(float));
  Sum<<<(count + 511) / 512, 256>>>(count, on_gpu, total);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaMemcpy(sum, total, sizeof(float), cudaMemcpyDeviceToHost);
  cudaFree(on_gpu);
  return error;
}
