// A GPU whose driver is timed by the wall's clock, and whose memory is counted by the allocator.

#ifndef FRUGAL_BINDINGS_REPLAY_REAL_GPU_H_
#define FRUGAL_BINDINGS_REPLAY_REAL_GPU_H_

#include <chrono>
#include <cstdint>

#include "bindings/replay/gpu.h"

namespace frugal::replay {

// frugal_alloc times its driver calls itself. PyTorch's allocators do not, so what counts as their driver's is the time
// of those calls into the allocator in which it took memory from the device or gave some back. The time of all calls
// is taken alike for every allocator. Streams have no work: what a late stream uses is done when the driver is asked.
class RealGpu final : public Gpu {
 public:
  // REQUIRES: c10's allocator has been initialised.
  RealGpu();

  void Reset() override;
  Costs CostsSoFar() const override;
  // Of the calls alone: what is asked between them takes longer than most of them.
  double SpentNs() const override { return static_cast<double>(host_ns_); }
  uint64_t MemoryUsed() const override { return used_; }
  uint64_t MemoryPeak() const override { return peak_; }
  void CallBegins() override { call_began_ = Clock::now(); }
  void CallEnds() override;

 private:
  using Clock = std::chrono::steady_clock;

  // Those that the allocator counts in PyTorch's statistics, whichever it is.
  void ReadStatistics();
  // Adds the driver calls of frugal_alloc since the process began; false where that is not the allocator.
  static bool ReadOurCalls(Costs& costs);

  Clock::time_point call_began_;
  uint64_t driver_ns_ = 0;
  uint64_t host_ns_ = 0;
  uint64_t used_ = 0;
  uint64_t peak_ = 0;
  // Calls that took memory from the device and gave it back.
  int64_t taken_ = 0;
  int64_t given_back_ = 0;
  // At the last Reset().
  int64_t taken_before_ = 0;
  int64_t given_back_before_ = 0;
  Costs ours_before_ = {};
};

}  // namespace frugal::replay

#endif  // FRUGAL_BINDINGS_REPLAY_REAL_GPU_H_
