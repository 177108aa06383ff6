// What the exported functions of the CUDA driver share.

#pragma once

#include <cuda.h>

#include "simulated_gpu/exports/handle_checks.h"
#include "simulated_gpu/exports/the_machine.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/thread_state.h"

namespace frugal::sim {

using Result = CUresult;
inline Result ToResult(Error error) { return static_cast<CUresult>(error); }

inline CUcontext ToHandle(const Context& context) {
  return static_cast<CUcontext>(const_cast<void*>(HandleOf(context)));
}
inline CUgreenCtx ToGreenHandle(const Context& context) {
  return static_cast<CUgreenCtx>(const_cast<void*>(GreenHandleOf(context)));
}
// The GPU's primary context.
inline CUcontext ContextOf(int gpu) { return ToHandle(TheMachine().contexts().primary(gpu)); }

inline CUmemAccess_flags ToAccessFlags(AddressSpace::Access access) { return static_cast<CUmemAccess_flags>(access); }

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
  return TheMachine().calls().Begin(kind);
}

using InLibrary = InDriver;
inline Error ContextOfCall(const char* function, Context** context) { return FindCurrentContext(function, context); }

#include "simulated_gpu/exports/in_context.inc"

}  // namespace frugal::sim
