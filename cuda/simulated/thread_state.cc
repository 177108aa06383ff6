#include "cuda/simulated/thread_state.h"

namespace frugal::sim {

ThreadState& ThisThread() {
  thread_local ThreadState state;
  return state;
}

}  // namespace frugal::sim
