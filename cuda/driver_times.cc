#include "cuda/driver_times.h"

namespace frugal {

void DriverTimes::Note(DriverCall call, int64_t nanoseconds) {
  Sums& sums = sums_[static_cast<size_t>(call)];
  sums.calls.fetch_add(1, std::memory_order_relaxed);
  sums.total.fetch_add(nanoseconds, std::memory_order_relaxed);
  int64_t worst = sums.worst.load(std::memory_order_relaxed);
  while (worst < nanoseconds && !sums.worst.compare_exchange_weak(worst, nanoseconds, std::memory_order_relaxed)) {
  }
}

DriverTime DriverTimes::Of(DriverCall call) const {
  const Sums& sums = sums_[static_cast<size_t>(call)];
  return {sums.calls.load(std::memory_order_relaxed), sums.total.load(std::memory_order_relaxed),
          sums.worst.load(std::memory_order_relaxed)};
}

void DriverTimes::Forget() {
  for (Sums& sums : sums_) {
    sums.calls.store(0, std::memory_order_relaxed);
    sums.total.store(0, std::memory_order_relaxed);
    sums.worst.store(0, std::memory_order_relaxed);
  }
}

}  // namespace frugal
