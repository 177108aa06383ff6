// The time that streams, events and waits go by.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace frugal::sim {

// Both a duration and a point in time; points count from the machine's boot or, on a manual clock, from 0.
using Nanoseconds = std::chrono::nanoseconds;

// The wall's time until the first Set() or CountCalls(), then only what it is told. Thread-safe.
class Clock {
 public:
  Nanoseconds Now() const;
  // Whether it is not the wall's.
  bool is_manual() const { return manual_ns_.load() != kWall; }

  // From here on the clock is manual. A manual clock never goes back: an earlier `now` changes nothing.
  void Set(Nanoseconds now);

  // From here on, until Set(), the clock is manual but for what the host's calls take, so that runs are alike. It
  // begins at 0.
  void CountCalls();
  // The host has been busy for so long. Nothing unless calls are counted; OnMove() is not called.
  void Pass(Nanoseconds time);

  // `moved` is called after each move that Set() or WaitUntil() has made, with no lock held here.
  void OnMove(std::function<void()> moved) { moved_ = std::move(moved); }

  // Returns when Now() >= time. A manual clock is moved there, since nobody else may be about to move it;
  // the wall's is slept for.
  void WaitUntil(Nanoseconds time);

 private:
  static constexpr int64_t kWall = -1;

  void MoveTo(Nanoseconds now);

  std::atomic<int64_t> manual_ns_{kWall};
  std::atomic<bool> counts_calls_{false};
  std::function<void()> moved_;
};

}  // namespace frugal::sim
