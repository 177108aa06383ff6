// Counts of what a device's memory is doing, with the names and meanings of torch.cuda.memory_stats.

#ifndef FRUGAL_ALLOCATOR_STATISTICS_H_
#define FRUGAL_ALLOCATOR_STATISTICS_H_

#include <algorithm>
#include <array>
#include <cstdint>

namespace frugal {

// One figure: now, its highest since the last reset, and the sums of all it rose and fell by.
struct Counter {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;

  void Increase(int64_t amount) {
    current += amount;
    peak = std::max(peak, current);
    allocated += amount;
  }
  void Decrease(int64_t amount) {
    current -= amount;
    freed += amount;
  }
  void ResetAccumulated() { allocated = freed = 0; }
  void ResetPeak() { peak = current; }
};

// Which requests a figure counts: all, or those up to kSmallLimit, or those above.
enum class SizeGroup { kAll, kSmall, kLarge };

class GroupedCounter {
 public:
  const Counter& operator[](SizeGroup group) const { return counters_[static_cast<size_t>(group)]; }

  void Increase(SizeGroup group, int64_t amount) {
    counters_[0].Increase(amount);
    counters_[static_cast<size_t>(group)].Increase(amount);
  }
  void Decrease(SizeGroup group, int64_t amount) {
    counters_[0].Decrease(amount);
    counters_[static_cast<size_t>(group)].Decrease(amount);
  }
  // What was counted in one group is the other's from now on; the total is the same.
  void Move(SizeGroup from, SizeGroup to, int64_t amount) {
    if (from == to) return;
    counters_[static_cast<size_t>(from)].Decrease(amount);
    counters_[static_cast<size_t>(to)].Increase(amount);
  }
  void ResetAccumulated() {
    for (Counter& counter : counters_) counter.ResetAccumulated();
  }
  void ResetPeak() {
    for (Counter& counter : counters_) counter.ResetPeak();
  }

 private:
  std::array<Counter, 3> counters_;
};

struct Statistics {
  GroupedCounter allocation;            // blocks handed out
  GroupedCounter segment;               // mapped runs of pages, or segments of cudaMalloc
  GroupedCounter active;                // blocks handed out, or freed and awaiting a stream
  GroupedCounter inactive_split;        // free blocks beside others in one segment
  GroupedCounter allocated_bytes;       // in blocks handed out
  GroupedCounter reserved_bytes;        // of physical memory held
  GroupedCounter active_bytes;          // in active blocks
  GroupedCounter inactive_split_bytes;  // in inactive split blocks
  GroupedCounter requested_bytes;       // as the caller asked for them, before rounding
  int64_t num_alloc_retries = 0;        // times that memory had to be given back before a request could be served
  int64_t num_ooms = 0;
  int64_t num_sync_all_streams = 0;  // times that the host waited for outstanding work
  int64_t num_device_alloc = 0;      // handles created, or segments of cudaMalloc
  int64_t num_device_free = 0;
  int64_t num_stitches = 0;        // ranges built from handles that were already held
  int64_t num_stitched_pages = 0;  // handles moved to build them
  int64_t num_stream_waits = 0;    // waits put into a stream to take over another's memory

  void ResetAccumulated() {
    ForEachCounter([](GroupedCounter& counter) { counter.ResetAccumulated(); });
    num_alloc_retries = num_ooms = num_sync_all_streams = num_device_alloc = num_device_free = 0;
    num_stitches = num_stitched_pages = num_stream_waits = 0;
  }

  // f(GroupedCounter&) for each figure that has a peak.
  template <typename F>
  void ForEachCounter(F&& f) {
    for (GroupedCounter* counter : {&allocation, &segment, &active, &inactive_split, &allocated_bytes, &reserved_bytes,
                                    &active_bytes, &inactive_split_bytes, &requested_bytes}) {
      f(*counter);
    }
  }
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_STATISTICS_H_
