// y = a * x + y, on the host's memory; returns the CUDA error number, 0 when all went well.
#include <cuda_runtime.h>

#include "paths.cuh"

namespace {

__global__ void Saxpy(int count, float a, const float* x, float* y) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * demo::kPerThread;
#pragma unroll
  for (int i = 0; i < demo::kPerThread; ++i) {
    if (first + i < count) y[first + i] = a * x[first + i] + y[first + i];
  }
}

}  // namespace

DEMO_API int demo_saxpy(int count, float a, const float* x, float* y) {
  const size_t bytes = sizeof(float) * static_cast<size_t>(count);
  float* on_gpu = nullptr;
  if (cudaError_t error = cudaMalloc(&on_gpu, 2 * bytes)) return error;
  float* x_gpu = on_gpu;
  float* y_gpu = on_gpu + count;
  cudaMemcpy(x_gpu, x, bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(y_gpu, y, bytes, cudaMemcpyHostToDevice);
  // Two elements a thread is the least of all paths: enough blocks for each of them.
  Saxpy<<<(count + 511) / 512, 256>>>(count, a, x_gpu, y_gpu);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaMemcpy(y, y_gpu, bytes, cudaMemcpyDeviceToHost);
  cudaFree(on_gpu);
  return error;
}
