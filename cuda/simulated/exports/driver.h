// What the exported functions of the CUDA driver share.

#ifndef FRUGAL_CUDA_SIMULATED_EXPORTS_DRIVER_H_
#define FRUGAL_CUDA_SIMULATED_EXPORTS_DRIVER_H_

#include <cuda.h>

#include "cuda/simulated/error.h"
#include "cuda/simulated/exports/the_machine.h"
#include "cuda/simulated/latency_model.h"
#include "cuda/simulated/thread_state.h"

namespace frugal::sim {

inline CUresult ToResult(Error error) { return static_cast<CUresult>(error); }

// A context stands for its GPU and nothing else.
inline CUcontext ContextOf(int gpu) { return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(0x10 + gpu)); }
inline int GpuOf(CUcontext context) { return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 0x10; }

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

// Calls `body` with the machine and the calling thread's GPU.
template <typename Body>
CUresult OnCurrentGpu(Body body) {
  Machine& machine = TheMachine();
  const int gpu = ThisThread().gpu;
  if (!machine.HasGpu(gpu)) return ToResult(machine.NoGpuError());
  machine.gpu(gpu).Use();
  const InDriver scope;
  return ToResult(body(machine, gpu));
}

// Calls `body` with the machine and the stream.
template <typename Body>
CUresult OnStream(CUstream handle, Body body) {
  return OnCurrentGpu([&](Machine& machine, int gpu) -> Error {
    Stream* stream = machine.streams().Find(reinterpret_cast<uint64_t>(handle), gpu);
    return stream == nullptr ? Error::kInvalidHandle : body(machine, *stream);
  });
}

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_EXPORTS_DRIVER_H_
