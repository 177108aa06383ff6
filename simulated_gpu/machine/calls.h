// The book of driver calls: counts them, adds up what they would have cost, and fails those that the plan says.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "allocator/port/driver_cost_table.h"
#include "simulated_gpu/machine/call_kind.h"
#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/driver_lock.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/fault_plan.h"
#include "simulated_gpu/machine/latency_model.h"
#include "simulated_gpu/machine/thread_state.h"

namespace frugal::sim {

// Thread-safe.
class Calls {
 public:
  // The table's costs, and no lock.
  Calls() = default;
  // Where `lock` is not null, calls take their time.
  Calls(const DriverCosts& costs, DriverLock* lock) : costs_(costs), lock_(lock) {}

  // A call of `kind` begins, which costs what CostOf() says. Unless this returns kSuccess the call is to fail with that
  // error and do nothing; it counts, and costs, all the same. With `partial` the plan may say there that the call does
  // half of what it is to do before it fails.
  Error Begin(CallKind kind, int64_t amount = 1, bool* partial = nullptr) {
    const bool in_driver = ThisThread().in_driver;
    const Nanoseconds cost(CostOf(kind, amount, costs_));
    if (lock_ != nullptr) lock_->Hold(cost);
    if (clock_ != nullptr) clock_->Pass(std::max(cost, kind == CallKind::kLaunch ? launch_ : kShortestCall));
    std::lock_guard lock(mutex_);
    ++counts_[static_cast<size_t>(kind)];
    if (in_driver) ++driver_counts_[static_cast<size_t>(kind)];
    driver_time_ += cost;
    return forked_ ? Error::kNotInitialized : faults_.Next(kind, in_driver, partial);
  }

  // On a clock that counts calls, each takes its cost, and at least kShortestCall, a launch at least `launch`.
  void TakeTimeOn(Clock& clock, Nanoseconds launch = kShortestCall) {
    clock_ = &clock;
    launch_ = launch;
  }
  static constexpr Nanoseconds kShortestCall{1000};
  // With what PyTorch does for an operator before it launches it. A host that launched faster than a GPU computes
  // would run ahead of it all the time, and memory would wait for streams as it hardly does on a GPU.
  static constexpr Nanoseconds kOperator{6000};

  // Counts a call of the driver's that costs nothing and that programs make at every turn, without a lock. False: it
  // may fail, and is to Begin instead.
  bool CountOften(CallKind kind) {
    if (may_fail_.load(std::memory_order_relaxed)) return false;
    often_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  // From now on every call that can fail does: see Machine.
  void BecomeForkedChild() {
    may_fail_ = true;
    // A thread of the parent may hold it, which is not here any more.
    new (&mutex_) std::mutex;
    if (lock_ != nullptr) lock_->BecomeForkedChild();
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
    may_fail_ = forked_ || !faults_.empty();
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
    return counts_[static_cast<size_t>(kind)] + often_[static_cast<size_t>(kind)];
  }
  // Of these, those that functions of the driver (cu...) made.
  uint64_t driver_count(CallKind kind) const {
    std::lock_guard lock(mutex_);
    return driver_counts_[static_cast<size_t>(kind)] + often_[static_cast<size_t>(kind)];
  }
  Nanoseconds driver_time() const {
    std::lock_guard lock(mutex_);
    return driver_time_;
  }
  // The fault plan goes on as it was.
  void ResetCounters() {
    std::lock_guard lock(mutex_);
    counts_ = driver_counts_ = {};
    for (std::atomic<uint64_t>& count : often_) count = 0;
    driver_time_ = Nanoseconds(0);
  }

 private:
  const DriverCosts costs_{};
  DriverLock* const lock_ = nullptr;
  Clock* clock_ = nullptr;
  Nanoseconds launch_ = kShortestCall;

  mutable std::mutex mutex_;
  using ByKind = std::array<uint64_t, kCallKindNames.size()>;
  ByKind counts_{};
  ByKind driver_counts_{};
  Nanoseconds driver_time_{0};
  FaultPlan faults_;
  bool forked_ = false;
  // Whether a plan, or a fork, may have a call fail.
  std::atomic<bool> may_fail_{false};
  // What CountOften() has counted.
  std::array<std::atomic<uint64_t>, kCallKindNames.size()> often_{};
};

}  // namespace frugal::sim
