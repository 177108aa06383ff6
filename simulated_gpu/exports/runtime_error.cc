// The runtime's last error, and the words for errors.

#include <cuda_runtime_api.h>

#include <utility>

#include "simulated_gpu/exports/runtime.h"

namespace frugal::sim {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

cudaError_t ToResult(Error error) {
  const auto result = static_cast<cudaError_t>(error);
  if (result != cudaSuccess) last_error = result;
  return result;
}

}  // namespace frugal::sim

cudaError_t cudaGetLastError() { return std::exchange(frugal::sim::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return frugal::sim::last_error; }
const char* cudaGetErrorString(cudaError_t error) {
  return frugal::sim::TextOf(static_cast<frugal::sim::Error>(error)).words;
}
const char* cudaGetErrorName(cudaError_t error) {
  return frugal::sim::TextOf(static_cast<frugal::sim::Error>(error)).runtime_name;
}
