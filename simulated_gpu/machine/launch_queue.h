// How far the host may run ahead of the GPU.

#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <vector>

#include "simulated_gpu/machine/clock.h"

namespace frugal::sim {

// The ends of the work that is outstanding. Its owner guards it.
class LaunchQueue {
 public:
  // So much is outstanding at most: whoever adds more waits, as a launch on a full queue of the driver's does.
  static constexpr size_t kLongest = 1024;

  // At `now`, work is enqueued that ends at `end`. Returns when the host may go on.
  Nanoseconds Add(Nanoseconds end, Nanoseconds now) {
    ends_.push(end);
    Nanoseconds until = now;
    while (!ends_.empty() && (ends_.top() <= now || ends_.size() > kLongest)) {
      until = std::max(until, ends_.top());
      ends_.pop();
    }
    return until;
  }

 private:
  std::priority_queue<Nanoseconds, std::vector<Nanoseconds>, std::greater<>> ends_;
};

}  // namespace frugal::sim
