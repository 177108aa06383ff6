// What the exported functions of the CUDA runtime share.
//
// The runtime_*.cc files use only what CUDA 12 and 13 declare alike, so that one build of them serves both; what
// differs is in runtime_abi_13.cc alone.

#ifndef FRUGAL_CUDA_SIMULATED_EXPORTS_RUNTIME_H_
#define FRUGAL_CUDA_SIMULATED_EXPORTS_RUNTIME_H_

#include <cuda_runtime_api.h>

#include "cuda/simulated/error.h"
#include "cuda/simulated/exports/handle_checks.h"
#include "cuda/simulated/exports/the_machine.h"
#include "cuda/simulated/thread_state.h"

namespace frugal::sim {

// Unless kSuccess, what cudaGetLastError will say to this thread.
cudaError_t Return(Error error);

// Calls `body` with the machine and the calling thread's context. In this and the next, `function` is the exported
// function that calls.
template <typename Body>
cudaError_t InCurrentContext(Body body, const char* function = __builtin_FUNCTION()) {
  Machine& machine = TheMachine();
  if (!machine.HasGpu(ThisThread().gpu)) return Return(machine.NoGpuError());
  Context* context = nullptr;
  if (const Error error = BindCurrentContext(function, &context); error != Error::kSuccess) return Return(error);
  machine.gpu(context->gpu()).Use();
  return Return(body(machine, *context));
}

// The same with the GPU of that context.
template <typename Body>
cudaError_t OnCurrentGpu(Body body, const char* function = __builtin_FUNCTION()) {
  return InCurrentContext([&](Machine& machine, Context& context) { return body(machine, context.gpu()); }, function);
}

// As OnCurrentGpu, for calls that a stream capture forbids.
template <typename Body>
cudaError_t OutsideCapture(Body body, const char* function = __builtin_FUNCTION()) {
  return OnCurrentGpu(
      [&](Machine& machine, int gpu) -> Error {
        RETURN_IF_ERROR(machine.streams().captures().CheckForbidden());
        return body(machine, gpu);
      },
      function);
}

// Calls `body` with the machine and the stream.
template <typename Body>
cudaError_t OnStream(cudaStream_t handle, Body body, const char* function = __builtin_FUNCTION()) {
  return InCurrentContext(
      [&](Machine& machine, Context& context) -> Error {
        Stream* stream = nullptr;
        const Error error = FindStream(handle, context, function, &stream);
        return error == Error::kSuccess ? body(machine, *stream) : error;
      },
      function);
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
