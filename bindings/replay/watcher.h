// Looks on while a history is played for the first time: memory over time, the way to its peak, and what its steady
// state costs.

#pragma once

#include <algorithm>
#include <cstdint>

#include "bindings/replay/gpu.h"
#include "bindings/replay/request.h"

namespace frugal::replay {

class Watcher {
 public:
  // Writes to `result` as events come; all arguments outlive this.
  Watcher(const Request& request, const Gpu& gpu, Result& result) : request_(request), gpu_(gpu), result_(result) {}

  void Before(uint64_t event) {
    if (event == request_.steady_from) steady_begin_ = gpu_.CostsSoFar();
  }

  void After(uint64_t event) {
    const uint64_t peak = gpu_.MemoryPeak();
    if (peak <= result_.peak_reserved_bytes) return;
    result_.peak_reserved_bytes = peak;
    result_.peak_reserved_at = event;
    result_.driver_ns_to_peak = gpu_.CostsSoFar().driver_ns;
  }

  // The pass has been played to its end.
  void Finish() {
    if (request_.steady_from >= request_.event_count) return;
    result_.steady = gpu_.CostsSoFar() - steady_begin_;
    for (uint64_t event = request_.steady_from; event < request_.event_count; ++event) {
      if (request_.events[event].operation == Operation::kAllocate) ++result_.steady_allocations;
    }
  }

 private:
  const Request& request_;
  const Gpu& gpu_;
  Result& result_;
  Costs steady_begin_ = {};
};

}  // namespace frugal::replay
