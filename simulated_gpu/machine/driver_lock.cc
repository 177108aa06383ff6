#include "simulated_gpu/machine/driver_lock.h"

#include <algorithm>
#include <thread>

#include "simulated_gpu/machine/compute_node.h"

namespace frugal::sim {
namespace {

// A system sleeps this much longer than it is told, which is more than most calls take.
constexpr Nanoseconds kOversleep = std::chrono::microseconds(100);

}  // namespace

void DriverLock::Hold(Nanoseconds cost) {
  if (cost > Nanoseconds(0)) WaitUntil(Enter(clock_.Now(), cost) + cost);
}

Nanoseconds DriverLock::Enter(Nanoseconds begin, Nanoseconds cost) {
  if (node_ != nullptr) return node_->EnterDriver(begin, cost, clock_.is_manual());
  std::lock_guard lock(mutex_);
  const Nanoseconds entered = std::max(begin, busy_until_);
  busy_until_ = entered + cost;
  return entered;
}

void DriverLock::WaitUntil(Nanoseconds time) {
  if (clock_.is_manual()) return clock_.WaitUntil(time);
  if (time - clock_.Now() > kOversleep) clock_.WaitUntil(time - kOversleep);
  while (clock_.Now() < time) std::this_thread::yield();
}

}  // namespace frugal::sim
