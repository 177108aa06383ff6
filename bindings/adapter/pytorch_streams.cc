#include "bindings/adapter/pytorch_streams.h"

#include <tuple>

namespace frugal {
namespace {

// c10's ids of pool streams, which its headers do not show: (index << 5) | (1 + which priority) << 1 | 1. In the
// libc10_cuda of each torch in tools/torch_versions.txt it was seen to be so (getStreamFromPool).
constexpr c10::StreamId kStreamsOfPool = 32;

c10::StreamId IdInPool(c10::StreamId priority, c10::StreamId index) {
  return index << 5 | (priority + 1) << 1 | c10::StreamId{1};
}

}  // namespace

bool IsOfPool(cudaStream_t handle, c10::DeviceIndex device) {
  static const auto range = c10::cuda::CUDAStream::priority_range();
  for (c10::StreamId priority = 0; priority <= std::get<0>(range) - std::get<1>(range); ++priority) {
    for (c10::StreamId index = 0; index < kStreamsOfPool; ++index) {
      const c10::Stream stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::CUDA, device),
                               IdInPool(priority, index));
      if (c10::cuda::CUDAStream(stream).stream() == handle) return true;
    }
  }
  return false;
}

Stream ToStream(GpuSet& gpus, GpuMemory& gpu, c10::cuda::CUDAStream stream) {
  const cudaStream_t handle = stream.stream();
  const bool of_other_gpu = stream.device_index() != gpu.ordinal();
  // Its context exists, since its stream does.
  DriverDevice& device = of_other_gpu ? gpus.Get(stream.device_index()).device() : gpu.device();
  const uint64_t usual_context = of_other_gpu ? device.primary_context() : 0;
  if (!IsDefaultStream(handle)) {
    const Stream named{reinterpret_cast<uint64_t>(handle), usual_context};
    return IsExternal(stream, handle) ? gpu.device().WithLife(named) : named;
  }
  // Those of the thread's own context, where that is of the same device.
  const uint64_t context = CurrentDevice() == stream.device_index() ? device.CurrentContext() : 0;
  if (context != 0) return DefaultStream(gpu.device(), handle, context);
  return Stream{DefaultStream(gpu.device(), handle, 0).id, usual_context};
}

}  // namespace frugal
