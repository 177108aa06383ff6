#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <string>

#include "bindings/replay/gpu.h"
#include "cuda/simulated/control.h"

namespace frugal::replay {
namespace {

struct Functions {
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

template <typename Function>
bool Look(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

class SimulatedGpu final : public Gpu {
 public:
  explicit SimulatedGpu(const Functions& functions) : functions_(functions) {}

  void Reset() override { functions_.reset_counters(); }

  Costs CostsSoFar() const override {
    Costs costs = {};
    costs.driver_ns = functions_.driver_ns();
    std::transform(kCallKinds.begin(), kCallKinds.end(), costs.driver_calls, functions_.calls);
    return costs;
  }

  // CPU time, whatever is done: between the calls next to nothing is.
  double SpentNs() const override {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
  }

  uint64_t MemoryUsed() const override { return functions_.memory_used(0); }
  uint64_t MemoryPeak() const override { return functions_.memory_peak(0); }
  void SetClock(uint64_t ns) override { functions_.set_clock(ns); }
  void KeepBusy(cudaStream_t stream, uint64_t until_ns) override { functions_.set_stream_busy_until(stream, until_ns); }
  bool ChecksOrder() const override { return functions_.checks_order() != 0; }
  void Touch(cudaStream_t stream, const void* start, uint64_t bytes, bool writes, const std::string& name) override {
    functions_.touch(stream, start, bytes, writes ? 1 : 0, name.c_str());
  }
  uint64_t OrderAccesses() const override { return functions_.order_accesses(); }
  uint64_t OrderViolations() const override { return functions_.order_violations(); }

  std::string OrderReport() const override {
    std::array<char, 1024> report;
    functions_.order_report(report.data(), report.size());
    return report.data();
  }

 private:
  const Functions functions_;
};

}  // namespace

std::unique_ptr<Gpu> FindSimulatedGpu() {
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
  return all ? std::make_unique<SimulatedGpu>(found) : nullptr;
}

}  // namespace frugal::replay
