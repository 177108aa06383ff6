#include "simulated_gpu/machine/clock.h"

#include <thread>

namespace frugal::sim {

Nanoseconds Clock::Now() const {
  const int64_t manual = manual_ns_.load();
  if (manual != kWall) return Nanoseconds(manual);
  return std::chrono::steady_clock::now().time_since_epoch();
}

void Clock::Set(Nanoseconds now) {
  counts_calls_ = false;
  MoveTo(now);
}

void Clock::CountCalls() {
  manual_ns_ = 0;
  counts_calls_ = true;
}

void Clock::Pass(Nanoseconds time) {
  if (counts_calls_.load(std::memory_order_relaxed)) manual_ns_ += time.count();
}

void Clock::MoveTo(Nanoseconds now) {
  int64_t current = manual_ns_.load();
  while (current < now.count() && !manual_ns_.compare_exchange_weak(current, now.count())) {
  }
  if (moved_) moved_();
}

void Clock::WaitUntil(Nanoseconds time) {
  if (is_manual()) return MoveTo(time);
  const Nanoseconds left = time - Now();
  if (left > Nanoseconds(0)) std::this_thread::sleep_for(left);
}

}  // namespace frugal::sim
