// PyTorch's current device and its streams, as the policy names them.

#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>

#include "allocator/port/device.h"
#include "bindings/adapter/gpu_memory.h"
#include "bindings/adapter/gpu_set.h"
#include "bindings/adapter/pool_streams.h"

namespace frugal {

inline c10::DeviceIndex CurrentDevice() {
  c10::DeviceIndex device = 0;
  const cudaError_t error = c10::cuda::GetDevice(&device);
  // The macro asks for assertions of kernels too, even when all is well.
  if (C10_UNLIKELY(error != cudaSuccess)) C10_CUDA_CHECK(error);
  return device;
}

// The handles that name another stream in each context: null and cudaStreamLegacy, which are one, and
// cudaStreamPerThread.
inline bool IsDefaultStream(cudaStream_t handle) {
  return reinterpret_cast<uintptr_t>(handle) <= reinterpret_cast<uintptr_t>(cudaStreamPerThread);
}

// A default stream of `context`; see DriverDevice::CurrentContext. A context that is not a device's primary one, as a
// green context is, may end.
inline Stream DefaultStream(DriverDevice& device, cudaStream_t handle, uint64_t context) {
  const bool per_thread = handle == cudaStreamPerThread;
  const Stream stream{per_thread ? reinterpret_cast<uint64_t>(handle) : 0, context};
  return context == 0 ? stream : device.WithLife(stream);
}

// The program made the stream, and may destroy it: it is not of PyTorch's pool. For these c10's id is the handle; ids
// of the pool are small and odd. c10's headers do not say so; in the libc10_cuda of each torch in
// tools/torch_versions.txt it was seen to be so (getStreamFromExternal, getStreamFromPool).
inline bool IsExternal(c10::cuda::CUDAStream stream, cudaStream_t handle) {
  return static_cast<uint64_t>(stream.id()) == reinterpret_cast<uint64_t>(handle);
}

// Whether the program made the stream. c10 says whose the current one is; any other is looked for in its pools.
C10_ALWAYS_INLINE bool IsOfProgram(cudaStream_t stream, c10::DeviceIndex device) {
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device);
  return current.stream() == stream ? IsExternal(current, stream)
                                    : !IsDefaultStream(stream) && !IsOfPool(stream, device);
}

// The stream, of whichever GPU, as the policy of `gpu` has it.
Stream ToStream(GpuSet& gpus, GpuMemory& gpu, c10::cuda::CUDAStream stream);

}  // namespace frugal
