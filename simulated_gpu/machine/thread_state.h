// What CUDA keeps for each host thread.

#pragma once

#include <cstdint>
#include <vector>

#include "simulated_gpu/machine/context.h"

namespace frugal::sim {

enum class CaptureMode;

struct ThreadState {
  // The GPU that calls without one mean: the current context's or, while there is none, that of which the runtime will
  // make the primary context current.
  int gpu = 0;
  // The current context; nullptr for a thread that has none yet, or no more.
  Context* context = nullptr;
  // Those pushed aside by cuCtxPushCurrent, the newest last.
  std::vector<Context*> pushed_contexts = {};
  // Calls that a capture forbids are forbidden to this thread as far as its own mode says, which is kGlobal at first.
  CaptureMode capture_mode{};
  // Whether this thread's graph launches do the recorded copies and fills.
  bool runs_graphs = true;
  // Within a function of the driver's (cu...), not of the runtime's (cuda...).
  bool in_driver = false;
  // From 1 on. No other thread has it, or had it before.
  const uint64_t number = NextNumber();

  // In the place of the current context, which is not kept; null for none.
  void SetContext(Context* to);
  void PushContext(Context* to);
  // REQUIRES: there is a current context. Returns it.
  Context* PopContext();

 private:
  static uint64_t NextNumber();
};

// The calling thread's.
ThreadState& ThisThread();

}  // namespace frugal::sim
