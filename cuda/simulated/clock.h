// The time that streams, events and waits go by.

#ifndef FRUGAL_CUDA_SIMULATED_CLOCK_H_
#define FRUGAL_CUDA_SIMULATED_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace frugal::sim {

// Both a duration and a point in time; points count from the machine's boot or, on a manual clock, from 0.
using Nanoseconds = std::chrono::nanoseconds;

// The wall's time until the first Set(), then only what it is told. Thread-safe.
class Clock {
 public:
  Nanoseconds Now() const;

  // From here on the clock is manual. A manual clock never goes back: an earlier `now` changes nothing.
  void Set(Nanoseconds now);

  // Returns when Now() >= time. A manual clock is moved there, since nobody else may be about to move it;
  // the wall's is slept for.
  void WaitUntil(Nanoseconds time);

 private:
  static constexpr int64_t kWall = -1;

  std::atomic<int64_t> manual_ns_{kWall};
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_CLOCK_H_
