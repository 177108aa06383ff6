// The simulated GPU that this process runs on, found through the functions that its libcudart exports
// (cuda/simulated/control.h).

#ifndef FRUGAL_BINDINGS_REPLAY_SIMULATED_GPU_H_
#define FRUGAL_BINDINGS_REPLAY_SIMULATED_GPU_H_

#include <cstdint>
#include <optional>

#include "cuda/simulated/control.h"

namespace frugal::replay {

struct SimulatedGpu {
  // None on a real GPU, or where libcudart is another one than the simulated.
  static std::optional<SimulatedGpu> Find();

  decltype(&frugal_sim_calls) calls;
  decltype(&frugal_sim_driver_ns) driver_ns;
  decltype(&frugal_sim_reset_counters) reset_counters;
  decltype(&frugal_sim_memory_used) memory_used;
  decltype(&frugal_sim_memory_peak) memory_peak;
  decltype(&frugal_sim_set_clock) set_clock;
  decltype(&frugal_sim_set_stream_busy_until) set_stream_busy_until;
  decltype(&frugal_sim_checks_order) checks_order;
  decltype(&frugal_sim_touch) touch;
  decltype(&frugal_sim_order_accesses) order_accesses;
  decltype(&frugal_sim_order_violations) order_violations;
  decltype(&frugal_sim_order_report) order_report;
};

}  // namespace frugal::replay

#endif  // FRUGAL_BINDINGS_REPLAY_SIMULATED_GPU_H_
