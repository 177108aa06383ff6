#include "bindings/replay/simulated_gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace frugal::replay {
namespace {

template <typename Function>
bool Look(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

}  // namespace

std::unique_ptr<Gpu> SimulatedGpu::Find() {
  Functions found;
  const bool all = Look("frugal_sim_calls", found.calls) && Look("frugal_sim_driver_ns", found.driver_ns) &&
                   Look("frugal_sim_reset_counters", found.reset_counters) &&
                   Look("frugal_sim_memory_used", found.memory_used) &&
                   Look("frugal_sim_memory_peak", found.memory_peak) && Look("frugal_sim_set_clock", found.set_clock) &&
                   Look("frugal_sim_set_stream_busy_until", found.set_stream_busy_until) &&
                   Look("frugal_sim_checks_order", found.checks_order) && Look("frugal_sim_touch", found.touch) &&
                   Look("frugal_sim_order_accesses", found.order_accesses) &&
                   Look("frugal_sim_order_violations", found.order_violations) &&
                   Look("frugal_sim_order_report", found.order_report);
  if (!all) return nullptr;
  return std::unique_ptr<Gpu>(new SimulatedGpu(found));
}

Costs SimulatedGpu::CostsSoFar() const {
  Costs costs = {};
  costs.driver_ns = functions_.driver_ns();
  std::transform(kCallKinds.begin(), kCallKinds.end(), costs.driver_calls, functions_.calls);
  return costs;
}

double SimulatedGpu::SpentNs() const {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

std::string SimulatedGpu::OrderReport() const {
  std::array<char, 1024> report;
  functions_.order_report(report.data(), report.size());
  return report.data();
}

}  // namespace frugal::replay
