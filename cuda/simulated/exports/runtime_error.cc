// The runtime's last error, and the words for errors.

#include <cuda_runtime_api.h>

#include <utility>

#include "cuda/simulated/exports/error_text.h"
#include "cuda/simulated/exports/runtime.h"

namespace frugal::sim {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

cudaError_t Return(Error error) {
  const auto result = static_cast<cudaError_t>(error);
  if (result != cudaSuccess) last_error = result;
  return result;
}

}  // namespace frugal::sim

cudaError_t cudaGetLastError() { return std::exchange(frugal::sim::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return frugal::sim::last_error; }
const char* cudaGetErrorString(cudaError_t error) { return frugal::sim::RuntimeErrorText(error).text; }
const char* cudaGetErrorName(cudaError_t error) { return frugal::sim::RuntimeErrorText(error).name; }
