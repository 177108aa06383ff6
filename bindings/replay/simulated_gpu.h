// The simulated GPU that this process runs on, found through the functions that its libcudart exports
// (cuda/simulated/control.h).

#ifndef FRUGAL_BINDINGS_REPLAY_SIMULATED_GPU_H_
#define FRUGAL_BINDINGS_REPLAY_SIMULATED_GPU_H_

#include <cstdint>
#include <memory>
#include <string>

#include "bindings/replay/gpu.h"
#include "cuda/simulated/control.h"

namespace frugal::replay {

// Costs are by its model, and memory is what the GPU counts.
class SimulatedGpu final : public Gpu {
 public:
  // None on a real GPU, or where libcudart is another one than the simulated.
  static std::unique_ptr<Gpu> Find();

  void Reset() override { functions_.reset_counters(); }
  Costs CostsSoFar() const override;
  // CPU time, whatever is done: between the calls next to nothing is.
  double SpentNs() const override;
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
  std::string OrderReport() const override;

 private:
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

  explicit SimulatedGpu(const Functions& functions) : functions_(functions) {}

  const Functions functions_;
};

}  // namespace frugal::replay

#endif  // FRUGAL_BINDINGS_REPLAY_SIMULATED_GPU_H_
