#include "bench/start_torch.h"

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "bindings/c_api/install.h"

// Exported by libc10_cuda, but in no header: libtorch_cuda sets it.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*has_primary_context)(signed char device));
}

namespace frugal::bench {

c10::cuda::CUDACachingAllocator::CUDAAllocator& StartTorch(const char* settings) {
  c10::cuda::_internal::setHasPrimaryContext([](signed char) { return true; });
  c10::cuda::CUDACachingAllocator::init(1);
  C10_CUDA_CHECK(cudaSetDevice(0));
  c10::cuda::CUDACachingAllocator::CUDAAllocator& native = *c10::cuda::CUDACachingAllocator::get();
  const absl::Status enabled = Enable(settings);
  if (!enabled.ok()) {
    std::fprintf(stderr, "%s\n", enabled.ToString().c_str());
    std::exit(2);
  }
  return native;
}

}  // namespace frugal::bench
