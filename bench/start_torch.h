// PyTorch's allocators in a C++ program without libtorch_cuda, which takes seconds to load.

#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

namespace frugal::bench {

// Starts c10's CUDA on GPU 0 and enables ours with these settings, which CUDACachingAllocator::get() is from now on.
// Returns native. Ends the program with status 2 if ours cannot be enabled. Once a process.
c10::cuda::CUDACachingAllocator::CUDAAllocator& StartTorch(const char* settings = "");

}  // namespace frugal::bench
