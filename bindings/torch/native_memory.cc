#include "bindings/torch/native_memory.h"

#include <cuda_runtime_api.h>

#include <string>

#include "bindings/torch/host_memory_text.h"

namespace frugal {
namespace {

// What native takes there is limited from the first byte on; elsewhere it needs nothing of us.
bool HasHostsMemory(c10::DeviceIndex device) {
  int integrated = 0;
  return cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, device) == cudaSuccess && integrated != 0;
}

}  // namespace

GpuMemory* SharedWithNative(GpuSet& gpus, c10::DeviceIndex device) {
  GpuMemory* const gpu = gpus.Find(device);
  return gpu == nullptr && HasHostsMemory(device) ? &gpus.Get(device) : gpu;
}

void AddWhatWeHold(c10::OutOfMemoryError& error, GpuMemory& gpu) {
  error.add_context(HeldByUs(gpu.allocator().GetStatistics()));
  if (const std::string host = DescribeHostMemory(gpu); !host.empty()) error.add_context(host);
}

}  // namespace frugal
