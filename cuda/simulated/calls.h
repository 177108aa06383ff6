// The book of driver calls: counts them, adds up what they would have cost, and fails those that the plan says.

#ifndef FRUGAL_CUDA_SIMULATED_CALLS_H_
#define FRUGAL_CUDA_SIMULATED_CALLS_H_

#include <array>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "cuda/simulated/call_kind.h"
#include "cuda/simulated/clock.h"
#include "cuda/simulated/error.h"
#include "cuda/simulated/fault_plan.h"
#include "cuda/simulated/thread_state.h"

namespace frugal::sim {

// Thread-safe.
class Calls {
 public:
  // A call of `kind` begins. Unless this returns kSuccess the call is to fail with that error and do nothing; it
  // counts, and costs, all the same.
  Error Begin(CallKind kind, Nanoseconds cost) {
    const bool in_driver = ThisThread().in_driver;
    std::lock_guard lock(mutex_);
    ++counts_[static_cast<size_t>(kind)];
    if (in_driver) ++driver_counts_[static_cast<size_t>(kind)];
    driver_time_ += cost;
    return forked_ ? Error::kNotInitialized : faults_.Next(kind, in_driver);
  }

  // From now on every call that can fail does: see Machine.
  void BecomeForkedChild() {
    // A thread of the parent may hold it, which is not here any more.
    new (&mutex_) std::mutex;
    forked_ = true;
  }

  // Something that is counted and cannot fail.
  void Note(CallKind kind) {
    std::lock_guard lock(mutex_);
    ++counts_[static_cast<size_t>(kind)];
  }

  void SetFaults(FaultPlan plan) {
    std::lock_guard lock(mutex_);
    faults_ = std::move(plan);
  }

  // Ends the plan and returns it as it is now, to be set again.
  FaultPlan TakeFaults() {
    std::lock_guard lock(mutex_);
    return std::exchange(faults_, FaultPlan());
  }

  // Calls that have failed by the plan since it was set.
  uint64_t faults() const {
    std::lock_guard lock(mutex_);
    return faults_.faults();
  }

  // Since the start or the last ResetCounters().
  uint64_t count(CallKind kind) const {
    std::lock_guard lock(mutex_);
    return counts_[static_cast<size_t>(kind)];
  }
  // Of these, those that functions of the driver (cu...) made.
  uint64_t driver_count(CallKind kind) const {
    std::lock_guard lock(mutex_);
    return driver_counts_[static_cast<size_t>(kind)];
  }
  Nanoseconds driver_time() const {
    std::lock_guard lock(mutex_);
    return driver_time_;
  }
  // The fault plan goes on as it was.
  void ResetCounters() {
    std::lock_guard lock(mutex_);
    counts_ = driver_counts_ = {};
    driver_time_ = Nanoseconds(0);
  }

 private:
  mutable std::mutex mutex_;
  using ByKind = std::array<uint64_t, kCallKindNames.size()>;
  ByKind counts_{};
  ByKind driver_counts_{};
  Nanoseconds driver_time_{0};
  FaultPlan faults_;
  bool forked_ = false;
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_CALLS_H_
