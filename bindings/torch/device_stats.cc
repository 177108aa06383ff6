#include "bindings/torch/device_stats.h"

#include <algorithm>

namespace frugal {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

// The figures that have a peak, in one order for all that walks them.
constexpr StatArray DeviceStats::*kStatArrays[] = {
    &DeviceStats::allocation,      &DeviceStats::segment,
    &DeviceStats::active,          &DeviceStats::inactive_split,
    &DeviceStats::allocated_bytes, &DeviceStats::reserved_bytes,
    &DeviceStats::active_bytes,    &DeviceStats::inactive_split_bytes,
    &DeviceStats::requested_bytes,
};

template <typename Figure>
StatArray ToStatArray(const Figure& figure) {
  StatArray array;
  for (size_t group = 0; group < array.size(); ++group) {
    const Counter from = figure[static_cast<SizeGroup>(group)];
    array[group].current = from.current;
    array[group].peak = from.peak;
    array[group].allocated = from.allocated;
    array[group].freed = from.freed;
  }
  return array;
}

}  // namespace

void PeakPeriods::Close(const DeviceStats& figures) {
  static_assert(std::size(kStatArrays) == kFigures);
  for (size_t figure = 0; figure < kFigures; ++figure) {
    const StatArray& array = figures.*kStatArrays[figure];
    for (size_t group = 0; group < array.size(); ++group) {
      peaks_[figure][group] = std::max(peaks_[figure][group], array[group].peak);
    }
  }
}

void PeakPeriods::Raise(DeviceStats& figures) const {
  for (size_t figure = 0; figure < kFigures; ++figure) {
    StatArray& array = figures.*kStatArrays[figure];
    for (size_t group = 0; group < array.size(); ++group) {
      array[group].peak = std::max(array[group].peak, peaks_[figure][group]);
    }
  }
}

DeviceStats ToDeviceStats(const Statistics& statistics) {
  DeviceStats stats;
  stats.allocation = ToStatArray(statistics.allocation);
  stats.segment = ToStatArray(statistics.segment);
  stats.active = ToStatArray(statistics.active());
  stats.inactive_split = ToStatArray(statistics.inactive_split);
  stats.allocated_bytes = ToStatArray(statistics.allocated_bytes);
  stats.reserved_bytes = ToStatArray(statistics.reserved_bytes);
  stats.active_bytes = ToStatArray(statistics.active_bytes());
  stats.inactive_split_bytes = ToStatArray(statistics.inactive_split_bytes);
  stats.requested_bytes = ToStatArray(statistics.requested_bytes);
  stats.num_alloc_retries = statistics.num_alloc_retries;
  stats.num_ooms = statistics.num_ooms;
  stats.num_sync_all_streams = statistics.num_sync_all_streams;
  stats.num_device_alloc = statistics.num_device_alloc;
  stats.num_device_free = statistics.num_device_free;
  return stats;
}

void AddStats(DeviceStats& into, const DeviceStats& more) {
  for (StatArray DeviceStats::*member : kStatArrays) {
    for (size_t group = 0; group < (into.*member).size(); ++group) {
      Stat& sum = (into.*member)[group];
      const Stat& term = (more.*member)[group];
      sum.current += term.current;
      sum.peak += term.peak;
      sum.allocated += term.allocated;
      sum.freed += term.freed;
    }
  }
  into.num_alloc_retries += more.num_alloc_retries;
  into.num_ooms += more.num_ooms;
  into.num_sync_all_streams += more.num_sync_all_streams;
  into.num_device_alloc += more.num_device_alloc;
  into.num_device_free += more.num_device_free;
}

}  // namespace frugal
