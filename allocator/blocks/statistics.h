// Counts of what a device's memory is doing, with the names and meanings of torch.cuda.memory_stats.

#pragma once

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

// What was freed and awaits a stream. With what is allocated it is what is active; apart, because it is most often
// nothing, and then costs an allocation nothing.
class AwaitingCounter {
 public:
  // `allocated` counts what is handed out. Active is never less than allocated, and more only while something awaits:
  // so its peak is that of allocated, or one that was noted.
  Counter Active(const GroupedCounter& allocated, SizeGroup group) const {
    const Counter handed_out = allocated[group];
    const int64_t awaiting = InGroup(current_, group);
    return Counter{handed_out.current + awaiting, std::max(handed_out.peak, peaks_[static_cast<size_t>(group)]),
                   handed_out.allocated, handed_out.freed - awaiting + InGroup(at_reset_, group)};
  }

  // REQUIRES, here and below: a group other than kAll.
  void Begin(SizeGroup group, int64_t amount) { current_[static_cast<size_t>(group)] += amount; }
  void End(SizeGroup group, int64_t amount) { current_[static_cast<size_t>(group)] -= amount; }
  // `allocated` rose while something awaits.
  void NotePeaks(const GroupedCounter& allocated, SizeGroup group) {
    for (SizeGroup counted : {SizeGroup::kAll, group}) {
      int64_t& peak = peaks_[static_cast<size_t>(counted)];
      peak = std::max(peak, Active(allocated, counted).current);
    }
  }
  void ResetAccumulated() { at_reset_ = current_; }
  void ResetPeak(const GroupedCounter& allocated) {
    for (SizeGroup group : {SizeGroup::kAll, SizeGroup::kSmall, SizeGroup::kLarge}) {
      peaks_[static_cast<size_t>(group)] = Active(allocated, group).current;
    }
  }

 private:
  using ByGroup = std::array<int64_t, 3>;

  static int64_t InGroup(const ByGroup& amounts, SizeGroup group) {
    return group == SizeGroup::kAll ? amounts[1] + amounts[2] : amounts[static_cast<size_t>(group)];
  }

  ByGroup current_ = {};   // that of kAll is the others' sum
  ByGroup at_reset_ = {};  // current_, at the last reset of what accumulates
  ByGroup peaks_ = {};     // of what is active, while something awaited
};

// What is active, by size group. Refers to the statistics that it comes from.
class ActiveFigure {
 public:
  ActiveFigure(const GroupedCounter& allocated, const AwaitingCounter& awaiting)
      : allocated_(allocated), awaiting_(awaiting) {}
  Counter operator[](SizeGroup group) const { return awaiting_.Active(allocated_, group); }

 private:
  const GroupedCounter& allocated_;
  const AwaitingCounter& awaiting_;
};

struct Statistics {
  GroupedCounter allocation;            // blocks handed out
  GroupedCounter segment;               // mapped runs of pages, or segments of cudaMalloc
  AwaitingCounter awaiting;             // blocks freed that await a stream
  GroupedCounter inactive_split;        // free blocks beside others in one segment
  GroupedCounter allocated_bytes;       // in blocks handed out
  GroupedCounter reserved_bytes;        // of physical memory held
  AwaitingCounter awaiting_bytes;       // in blocks awaiting
  GroupedCounter inactive_split_bytes;  // in inactive split blocks
  GroupedCounter requested_bytes;       // as the caller asked for them, before rounding
  int64_t num_alloc_retries = 0;        // times that memory had to be given back before a request could be served
  int64_t num_ooms = 0;
  int64_t num_sync_all_streams = 0;  // times that the host waited for outstanding work
  int64_t num_device_alloc = 0;      // handles created, or segments of cudaMalloc
  int64_t num_device_free = 0;
  int64_t num_stitches = 0;         // ranges built from handles that were already held
  int64_t num_stitched_pages = 0;   // handles moved to build them
  int64_t num_stream_waits = 0;     // waits put into a stream to take over another's memory
  int64_t num_driver_failures = 0;  // calls that the driver failed and that were made up for

  // Blocks allocated or awaiting, and the bytes in them.
  ActiveFigure active() const { return ActiveFigure(allocation, awaiting); }
  ActiveFigure active_bytes() const { return ActiveFigure(allocated_bytes, awaiting_bytes); }

  void ResetAccumulated() {
    ForEachGroupedCounter([](GroupedCounter& counter) { counter.ResetAccumulated(); });
    awaiting.ResetAccumulated();
    awaiting_bytes.ResetAccumulated();
    num_alloc_retries = num_ooms = num_sync_all_streams = num_device_alloc = num_device_free = 0;
    num_stitches = num_stitched_pages = num_stream_waits = num_driver_failures = 0;
  }

  void ResetPeaks() {
    ForEachGroupedCounter([](GroupedCounter& counter) { counter.ResetPeak(); });
    awaiting.ResetPeak(allocation);
    awaiting_bytes.ResetPeak(allocated_bytes);
  }

 private:
  template <typename F>
  void ForEachGroupedCounter(F&& f) {
    for (GroupedCounter* counter : {&allocation, &segment, &inactive_split, &allocated_bytes, &reserved_bytes,
                                    &inactive_split_bytes, &requested_bytes}) {
      f(*counter);
    }
  }
};

}  // namespace frugal
