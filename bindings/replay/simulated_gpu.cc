#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <string>

#include "bindings/replay/gpu.h"
#include "simulated_gpu/machine/control.h"

// Null where libcudart is not the simulated one, which alone has them.
#pragma weak frugal_sim_calls
#pragma weak frugal_sim_driver_ns
#pragma weak frugal_sim_reset_counters
#pragma weak frugal_sim_memory_used
#pragma weak frugal_sim_memory_peak
#pragma weak frugal_sim_set_clock
#pragma weak frugal_sim_set_stream_busy_until
#pragma weak frugal_sim_checks_order
#pragma weak frugal_sim_touch
#pragma weak frugal_sim_order_accesses
#pragma weak frugal_sim_order_violations
#pragma weak frugal_sim_order_report

namespace frugal::replay {
namespace {

class SimulatedGpu final : public Gpu {
 public:
  void Reset() override { frugal_sim_reset_counters(); }

  Costs CostsSoFar() const override {
    Costs costs = {};
    costs.driver_ns = frugal_sim_driver_ns();
    std::transform(kCallKinds.begin(), kCallKinds.end(), costs.driver_calls, frugal_sim_calls);
    return costs;
  }

  // CPU time, whatever is done: between the calls next to nothing is.
  double SpentNs() const override {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
  }

  uint64_t MemoryPeak() const override { return frugal_sim_memory_peak(0); }
  void SetClock(uint64_t ns) override { frugal_sim_set_clock(ns); }
  void KeepBusy(cudaStream_t stream, uint64_t until_ns) override { frugal_sim_set_stream_busy_until(stream, until_ns); }
  bool ChecksOrder() const override { return frugal_sim_checks_order() != 0; }
  void Touch(cudaStream_t stream, const void* start, uint64_t bytes, bool writes, const std::string& name) override {
    frugal_sim_touch(stream, start, bytes, writes ? 1 : 0, name.c_str());
  }
  uint64_t OrderAccesses() const override { return frugal_sim_order_accesses(); }
  uint64_t OrderViolations() const override { return frugal_sim_order_violations(); }

  std::string OrderReport() const override {
    std::array<char, 1024> report;
    frugal_sim_order_report(report.data(), report.size());
    return report.data();
  }
};

}  // namespace

std::unique_ptr<Gpu> FindSimulatedGpu() {
  return &frugal_sim_calls != nullptr ? std::make_unique<SimulatedGpu>() : nullptr;
}

}  // namespace frugal::replay
