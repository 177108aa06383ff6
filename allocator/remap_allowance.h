// How much driver time remapping may take while the device has room.

#ifndef FRUGAL_ALLOCATOR_REMAP_ALLOWANCE_H_
#define FRUGAL_ALLOCATOR_REMAP_ALLOWANCE_H_

#include <algorithm>
#include <cstdint>

namespace frugal {

// Every allocation earns some modelled time, remapping within a stream spends it. Within the allowance, remapping comes
// before new memory: what is not taken stays for others. Beyond it, a program whose requests hardly ever find a range
// that fits would pay for every one of them; it gets new memory instead, as long as there is some. Memory that moves
// between streams is not counted: it is what they would otherwise hold twice. Counted, not clocked, so that the same
// program always gets the same layout. Not thread-safe.
class RemapAllowance {
 public:
  // `allocations`: how many there have been. A count that went back was reset.
  void Earn(int64_t allocations) {
    const int64_t earned = allocations < seen_ ? allocations : allocations - seen_;
    seen_ = allocations;
    left_ = std::min(kMost, left_ + kEachAllocation * earned);
  }
  void Spend(int64_t nanoseconds) { left_ -= nanoseconds; }
  bool IsSpent() const { return left_ < 0; }

 private:
  // In nanoseconds. Trainings need less than a fifth of this; a hit costs 100.
  static constexpr int64_t kEachAllocation = 24'000;
  // For the start, and for phases that want another layout.
  static constexpr int64_t kMost = 240'000'000;

  int64_t left_ = kMost;
  int64_t seen_ = 0;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_REMAP_ALLOWANCE_H_
