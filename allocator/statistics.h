// Counts of what a device's memory is doing, with the names and meanings of torch.cuda.memory_stats.

#ifndef FRUGAL_ALLOCATOR_STATISTICS_H_
#define FRUGAL_ALLOCATOR_STATISTICS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace frugal {

// One figure: now, its highest since the last reset, and the sums of all it rose and fell by.
struct Counter {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;
};

// Which requests a figure counts: all, or those up to kSmallLimit, or those above.
enum class SizeGroup { kAll, kSmall, kLarge };

// A figure by size group. Every allocation enters several, so only what cannot be derived is kept: the total is the sum
// of the groups, except for its peak, and what was freed is what was allocated and is no longer there.
class GroupedCounter {
 public:
  Counter operator[](SizeGroup group) const {
    if (group != SizeGroup::kAll) return parts_[Index(group)].ToCounter();
    const Counter small = parts_[0].ToCounter();
    const Counter large = parts_[1].ToCounter();
    return Counter{total(), total_peak_, small.allocated + large.allocated - moved_,
                   small.freed + large.freed - moved_};
  }
  // Of all groups, now.
  int64_t total() const { return parts_[0].current + parts_[1].current; }

  // REQUIRES, here and below: a group other than kAll.
  void Increase(SizeGroup group, int64_t amount) {
    parts_[Index(group)].Increase(amount);
    total_peak_ = std::max(total_peak_, total());
  }
  void Decrease(SizeGroup group, int64_t amount) { parts_[Index(group)].current -= amount; }
  // What was counted in one group is the other's from now on; the total is the same.
  void Move(SizeGroup from, SizeGroup to, int64_t amount) {
    if (from == to) return;
    parts_[Index(from)].current -= amount;
    parts_[Index(to)].Increase(amount);
    moved_ += amount;
  }
  void ResetAccumulated() {
    for (Part& part : parts_) {
      part.allocated = 0;
      part.at_reset = part.current;
    }
    moved_ = 0;
  }
  void ResetPeak() {
    for (Part& part : parts_) part.peak = part.current;
    total_peak_ = total();
  }

 private:
  struct Part {
    int64_t current = 0;
    int64_t peak = 0;
    int64_t allocated = 0;
    int64_t at_reset = 0;  // current, when allocated was last 0

    void Increase(int64_t amount) {
      current += amount;
      allocated += amount;
      peak = std::max(peak, current);
    }
    Counter ToCounter() const { return Counter{current, peak, allocated, allocated + at_reset - current}; }
  };
  static size_t Index(SizeGroup group) { return static_cast<size_t>(group) - 1; }

  std::array<Part, 2> parts_;  // small, large
  int64_t total_peak_ = 0;
  int64_t moved_ = 0;  // between groups, since the last reset: neither allocated nor freed in total
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
