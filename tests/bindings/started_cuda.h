// CUDA as it is in a process that has used it.

#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

// Exported by libc10_cuda, but in no header: libtorch_cuda sets it, and these programs do without libtorch_cuda.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*has_primary_context)(signed char device));
}

namespace frugal {

inline void StartCuda(int gpus) {
  c10::cuda::_internal::setHasPrimaryContext([](signed char) { return true; });
  c10::cuda::CUDACachingAllocator::init(gpus);
}

}  // namespace frugal
