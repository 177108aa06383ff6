// What the exported functions of the CUDA runtime share.
//
// The runtime_*.cc files use only what CUDA 12 and 13 declare alike, so that one build of them serves both; what
// differs is in runtime_abi_13.cc alone.

#pragma once

#include <cuda_runtime_api.h>

#include "simulated_gpu/exports/handle_checks.h"
#include "simulated_gpu/exports/the_machine.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/thread_state.h"

namespace frugal::sim {

using Result = cudaError_t;
// Unless kSuccess, what cudaGetLastError will say to this thread.
Result ToResult(Error error);

struct InLibrary {};
inline Error ContextOfCall(const char* function, Context** context) { return BindCurrentContext(function, context); }

#include "simulated_gpu/exports/in_context.inc"

// Calls `body` with the machine and a GPU that need not be the thread's.
template <typename Body>
cudaError_t OnGpu(int gpu, Body body) {
  Machine& machine = TheMachine();
  if (!machine.HasGpu(gpu)) return ToResult(machine.gpu_count() == 0 ? machine.NoGpuError() : Error::kInvalidDevice);
  return ToResult(body(machine, machine.gpu(gpu)));
}

}  // namespace frugal::sim
