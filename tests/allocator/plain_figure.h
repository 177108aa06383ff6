// Figures that keep everything, for those of the allocator, which keep less than they tell.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "allocator/blocks/statistics.h"
#include "gtest/gtest.h"

namespace frugal {

inline constexpr SizeGroup kGroups[] = {SizeGroup::kAll, SizeGroup::kSmall, SizeGroup::kLarge};

// A figure of which every part is kept for every group, as torch.cuda.memory_stats defines them.
class PlainFigure {
 public:
  const Counter& operator[](SizeGroup group) const { return counters_[static_cast<size_t>(group)]; }

  void Increase(SizeGroup group, int64_t amount) {
    for (SizeGroup counted : {SizeGroup::kAll, group}) Rise(counted, amount);
  }
  void Decrease(SizeGroup group, int64_t amount) {
    for (SizeGroup counted : {SizeGroup::kAll, group}) Fall(counted, amount);
  }
  void Move(SizeGroup from, SizeGroup to, int64_t amount) {
    Fall(from, amount);
    Rise(to, amount);
  }
  void ResetAccumulated() {
    for (Counter& counter : counters_) counter.allocated = counter.freed = 0;
  }
  void ResetPeak() {
    for (Counter& counter : counters_) counter.peak = counter.current;
  }

 private:
  void Rise(SizeGroup group, int64_t amount) {
    Counter& counter = counters_[static_cast<size_t>(group)];
    counter.current += amount;
    counter.allocated += amount;
    counter.peak = std::max(counter.peak, counter.current);
  }
  void Fall(SizeGroup group, int64_t amount) {
    Counter& counter = counters_[static_cast<size_t>(group)];
    counter.current -= amount;
    counter.freed += amount;
  }

  std::array<Counter, 3> counters_;
};

template <typename Figure>
void ExpectSame(const Figure& figure, const PlainFigure& plain) {
  for (SizeGroup group : kGroups) {
    SCOPED_TRACE(testing::Message() << "group " << static_cast<int>(group));
    EXPECT_EQ(figure[group].current, plain[group].current);
    EXPECT_EQ(figure[group].peak, plain[group].peak);
    EXPECT_EQ(figure[group].allocated, plain[group].allocated);
    EXPECT_EQ(figure[group].freed, plain[group].freed);
  }
}

}  // namespace frugal
