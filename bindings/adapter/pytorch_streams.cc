#include "bindings/adapter/pytorch_streams.h"

namespace frugal {

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
