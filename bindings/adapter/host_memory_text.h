// Who has the host's memory, where a GPU has none of its own, in words.

#pragma once

#include <string>

#include "bindings/adapter/gpu_memory.h"

namespace frugal {

// "" where the GPU has memory of its own.
std::string DescribeHostMemory(GpuMemory& gpu);
// `on_gpu`: what this process has of it for the GPU.
std::string DescribeHostMemory(const UnifiedMemory::State& host, Bytes on_gpu);

}  // namespace frugal
