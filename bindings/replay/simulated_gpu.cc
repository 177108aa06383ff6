#include "bindings/replay/simulated_gpu.h"

#include <dlfcn.h>

namespace frugal::replay {
namespace {

template <typename Function>
bool Look(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

}  // namespace

std::optional<SimulatedGpu> SimulatedGpu::Find() {
  SimulatedGpu gpu;
  const bool found =
      Look("frugal_sim_calls", gpu.calls) && Look("frugal_sim_driver_ns", gpu.driver_ns) &&
      Look("frugal_sim_reset_counters", gpu.reset_counters) && Look("frugal_sim_memory_used", gpu.memory_used) &&
      Look("frugal_sim_memory_peak", gpu.memory_peak) && Look("frugal_sim_set_clock", gpu.set_clock) &&
      Look("frugal_sim_set_stream_busy_until", gpu.set_stream_busy_until) &&
      Look("frugal_sim_checks_order", gpu.checks_order) && Look("frugal_sim_touch", gpu.touch) &&
      Look("frugal_sim_order_accesses", gpu.order_accesses) &&
      Look("frugal_sim_order_violations", gpu.order_violations) && Look("frugal_sim_order_report", gpu.order_report);
  if (!found) return std::nullopt;
  return gpu;
}

}  // namespace frugal::replay
