// What the exported functions of the CUDA runtime share.
//
// The runtime_*.cc files use only what CUDA 12 and 13 declare alike, so that one build of them serves both; what
// differs is in runtime_abi_13.cc alone.

#ifndef FRUGAL_CUDA_SIMULATED_EXPORTS_RUNTIME_H_
#define FRUGAL_CUDA_SIMULATED_EXPORTS_RUNTIME_H_

#include <cuda_runtime_api.h>

#include "cuda/simulated/error.h"
#include "cuda/simulated/exports/the_machine.h"
#include "cuda/simulated/thread_state.h"

namespace frugal::sim {

// Unless kSuccess, what cudaGetLastError will say to this thread.
cudaError_t Return(Error error);

// Calls `body` with the machine and the calling thread's GPU.
template <typename Body>
cudaError_t OnCurrentGpu(Body body) {
  Machine& machine = TheMachine();
  const int gpu = ThisThread().gpu;
  if (!machine.HasGpu(gpu)) return Return(machine.NoGpuError());
  machine.gpu(gpu).Use();
  return Return(body(machine, gpu));
}

// As OnCurrentGpu, for calls that a stream capture forbids.
template <typename Body>
cudaError_t OutsideCapture(Body body) {
  return OnCurrentGpu([&](Machine& machine, int gpu) -> Error {
    if (const Error error = machine.streams().CheckForbiddenByCapture(); error != Error::kSuccess) return error;
    return body(machine, gpu);
  });
}

// Calls `body` with the machine and the stream.
template <typename Body>
cudaError_t OnStream(cudaStream_t handle, Body body) {
  return OnCurrentGpu([&](Machine& machine, int gpu) -> Error {
    Stream* stream = machine.streams().Find(reinterpret_cast<uint64_t>(handle), gpu);
    return stream == nullptr ? Error::kInvalidHandle : body(machine, *stream);
  });
}

// Calls `body` with the machine and a GPU that need not be the thread's.
template <typename Body>
cudaError_t OnGpu(int gpu, Body body) {
  Machine& machine = TheMachine();
  if (!machine.HasGpu(gpu)) return Return(machine.gpu_count() == 0 ? machine.NoGpuError() : Error::kInvalidDevice);
  return Return(body(machine, machine.gpu(gpu)));
}

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_EXPORTS_RUNTIME_H_
