// The lock inside a driver, which the calls of all threads, and of all processes of a node, hold while they last.

#ifndef FRUGAL_CUDA_SIMULATED_DRIVER_LOCK_H_
#define FRUGAL_CUDA_SIMULATED_DRIVER_LOCK_H_

#include <cstdint>
#include <mutex>
#include <new>

#include "cuda/simulated/clock.h"

namespace frugal::sim {

class ComputeNode;

// Each thread has a time of its own: the clock's, or the end of its last call if that is later. A call begins at its
// thread's time, waits until the calls before it have left, and lasts as long as it costs.
//
// Where calls take no time on the clock a thread's time runs ahead of it by what its calls cost, and who calls first is
// served first, however much later that is on its own time: the wait is then an upper bound. Where they take time it is
// what threads and processes really waited. Thread-safe.
class DriverLock {
 public:
  // `node` may be null. With `takes_time` calls return when they are over by `clock`.
  DriverLock(Clock& clock, ComputeNode* node, bool takes_time) : clock_(clock), node_(node), takes_time_(takes_time) {}
  DriverLock(const DriverLock&) = delete;
  DriverLock& operator=(const DriverLock&) = delete;

  // The calling thread makes a call that costs `cost`. How long it waited for others.
  Nanoseconds Hold(Nanoseconds cost);

  // The lock of a process that was forked from the machine's.
  void BecomeForkedChild() { new (&mutex_) std::mutex; }

 private:
  static uint64_t NextId();
  // The beginning of a call that may begin at `begin`.
  Nanoseconds Enter(Nanoseconds begin, Nanoseconds cost);
  void WaitUntil(Nanoseconds time);

  Clock& clock_;
  ComputeNode* const node_;
  const bool takes_time_;
  const uint64_t id_ = NextId();

  std::mutex mutex_;
  Nanoseconds busy_until_{0};
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_DRIVER_LOCK_H_
