#include "cuda/simulated/driver_lock.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "cuda/simulated/compute_node.h"

namespace frugal::sim {
namespace {

// The end of the calling thread's last call, and the lock that it was behind: a test has several machines.
struct LastCall {
  uint64_t lock = 0;
  Nanoseconds end{0};
};
thread_local LastCall last_call;

// A system sleeps this much longer than it is told, which is more than most calls take.
constexpr Nanoseconds kOversleep = std::chrono::microseconds(100);

}  // namespace

uint64_t DriverLock::NextId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

Nanoseconds DriverLock::Hold(Nanoseconds cost) {
  if (cost == Nanoseconds(0)) return cost;
  Nanoseconds begin = clock_.Now();
  if (last_call.lock == id_) begin = std::max(begin, last_call.end);
  const Nanoseconds entered = Enter(begin, cost);
  last_call = {id_, entered + cost};
  if (takes_time_) WaitUntil(entered + cost);
  return entered - begin;
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
