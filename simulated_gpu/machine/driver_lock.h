// The lock inside a driver, which the calls of all threads, and of all processes of a node, hold while they last.

#pragma once

#include <mutex>
#include <new>

#include "simulated_gpu/machine/clock.h"

namespace frugal::sim {

class ComputeNode;

// A call waits until the calls before it have left, and lasts as long as it costs. Thread-safe.
class DriverLock {
 public:
  // `node` may be null.
  DriverLock(Clock& clock, ComputeNode* node) : clock_(clock), node_(node) {}
  DriverLock(const DriverLock&) = delete;
  DriverLock& operator=(const DriverLock&) = delete;

  // The calling thread makes a call that costs `cost`, which is over by the clock when this returns.
  void Hold(Nanoseconds cost);

  // The lock of a process that was forked from the machine's.
  void BecomeForkedChild() { new (&mutex_) std::mutex; }

 private:
  // The beginning of a call that may begin at `begin`.
  Nanoseconds Enter(Nanoseconds begin, Nanoseconds cost);
  void WaitUntil(Nanoseconds time);

  Clock& clock_;
  ComputeNode* const node_;

  std::mutex mutex_;
  Nanoseconds busy_until_{0};
};

}  // namespace frugal::sim
