// What the exported functions of the CUDA driver share.

#ifndef FRUGAL_CUDA_SIMULATED_EXPORTS_DRIVER_H_
#define FRUGAL_CUDA_SIMULATED_EXPORTS_DRIVER_H_

#include <cuda.h>

#include "cuda/simulated/error.h"
#include "cuda/simulated/exports/handle_checks.h"
#include "cuda/simulated/exports/the_machine.h"
#include "cuda/simulated/latency_model.h"
#include "cuda/simulated/thread_state.h"

namespace frugal::sim {

inline CUresult ToResult(Error error) { return static_cast<CUresult>(error); }

inline CUcontext ToHandle(const Context& context) {
  return static_cast<CUcontext>(const_cast<void*>(HandleOf(context)));
}
inline CUgreenCtx ToGreenHandle(const Context& context) {
  return static_cast<CUgreenCtx>(const_cast<void*>(GreenHandleOf(context)));
}
// The GPU's primary context.
inline CUcontext ContextOf(int gpu) { return ToHandle(TheMachine().contexts().primary(gpu)); }

inline CUmemAccess_flags ToAccessFlags(AddressSpace::Access access) {
  switch (access) {
    case AddressSpace::Access::kNone:
      return CU_MEM_ACCESS_FLAGS_PROT_NONE;
    case AddressSpace::Access::kRead:
      return CU_MEM_ACCESS_FLAGS_PROT_READ;
    case AddressSpace::Access::kReadWrite:
      return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

// The calls of the machine that this thread makes while it lives are the driver's.
class InDriver {
 public:
  InDriver() { ThisThread().in_driver = true; }
  ~InDriver() { ThisThread().in_driver = false; }
  InDriver(const InDriver&) = delete;
  InDriver& operator=(const InDriver&) = delete;
};

// Counts a call of `kind` that takes no time, by a function of the driver's; other than kSuccess, it is to fail so.
inline Error BeginDriverCall(CallKind kind) {
  const InDriver scope;
  return TheMachine().calls().Begin(kind, LatencyModel::Uncharged());
}

// Calls `body` with the machine and the calling thread's context. In this and the next, `function` is the exported
// function that calls.
template <typename Body>
CUresult InCurrentContext(Body body, const char* function = __builtin_FUNCTION()) {
  Machine& machine = TheMachine();
  if (!machine.HasGpu(ThisThread().gpu)) return ToResult(machine.NoGpuError());
  Context* context = nullptr;
  if (const Error error = FindCurrentContext(function, &context); error != Error::kSuccess) return ToResult(error);
  machine.gpu(context->gpu()).Use();
  const InDriver scope;
  return ToResult(body(machine, *context));
}

// The same with the GPU of that context.
template <typename Body>
CUresult OnCurrentGpu(Body body, const char* function = __builtin_FUNCTION()) {
  return InCurrentContext([&](Machine& machine, Context& context) { return body(machine, context.gpu()); }, function);
}

// Calls `body` with the machine and the stream.
template <typename Body>
CUresult OnStream(CUstream handle, Body body, const char* function = __builtin_FUNCTION()) {
  return InCurrentContext(
      [&](Machine& machine, Context& context) -> Error {
        Stream* stream = nullptr;
        const Error error = FindStream(handle, context, function, &stream);
        return error == Error::kSuccess ? body(machine, *stream) : error;
      },
      function);
}

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_EXPORTS_DRIVER_H_
