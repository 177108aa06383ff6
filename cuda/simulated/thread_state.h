// What CUDA keeps for each host thread.

#ifndef FRUGAL_CUDA_SIMULATED_THREAD_STATE_H_
#define FRUGAL_CUDA_SIMULATED_THREAD_STATE_H_

#include <vector>

#include "cuda/simulated/capture.h"

namespace frugal::sim {

struct ThreadState {
  // The GPU that calls without one mean.
  int gpu = 0;
  // Calls that a capture forbids are forbidden to this thread as far as its own mode says.
  CaptureMode capture_mode = CaptureMode::kGlobal;
  // Whether this thread's graph launches do the recorded copies and fills.
  bool runs_graphs = true;
  // GPUs pushed aside by cuCtxPushCurrent.
  std::vector<int> pushed_gpus;
  // Within a function of the driver's (cu...), not of the runtime's (cuda...).
  bool in_driver = false;
};

// The calling thread's.
ThreadState& ThisThread();

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_THREAD_STATE_H_
