// Our figures and native's as one: what torch.cuda.memory_stats reports while both hold memory.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "allocator/blocks/statistics.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

// Peaks that outlive a reset of the counters below them. When memory moves from one allocator to the other, their
// peaks lie in different times and must not be added. So each change of hands begins a new period. The peak of a
// period is at most the sum of the two, and the peak of all is the highest of the periods'.
//
// Thread-safety: none; GpuStatistics locks.
class PeakPeriods {
 public:
  // Remembers the peaks of `figures`; the caller resets the counters that they came from.
  void Close(const DeviceStats& figures);
  // Raises the peaks of `figures` to those remembered.
  void Raise(DeviceStats& figures) const;
  void Forget() { peaks_ = {}; }

 private:
  static constexpr size_t kFigures = 9;
  std::array<std::array<int64_t, 3>, kFigures> peaks_ = {};
};

DeviceStats ToDeviceStats(const Statistics& statistics);

// `into` += `more`, figure by figure. What only native has (oversize blocks, pools) is `into`'s.
void AddStats(DeviceStats& into, const DeviceStats& more);

}  // namespace frugal
