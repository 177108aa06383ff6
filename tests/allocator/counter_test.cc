// The counters keep less than they tell; here they are compared with ones that keep everything.

#include <array>
#include <random>

#include "tests/allocator/plain_figure.h"

namespace frugal {
namespace {

class Counters : public testing::TestWithParam<int> {
 protected:
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  SizeGroup DrawGroup() { return Draw(0, 1) == 0 ? SizeGroup::kSmall : SizeGroup::kLarge; }

  std::mt19937 random_{static_cast<uint32_t>(GetParam())};  // the test's name ends with the seed
};

TEST_P(Counters, TellWhatAPlainFigureTells) {
  GroupedCounter counter;
  PlainFigure plain;
  for (int step = 0; step < 2000 && !HasFailure(); ++step) {
    const SizeGroup group = DrawGroup();
    const int64_t choice = Draw(0, 99);
    const int64_t amount = choice < 50 ? Draw(0, 1000) : Draw(0, plain[group].current);
    if (choice < 50) {
      counter.Increase(group, amount);
      plain.Increase(group, amount);
    } else if (choice < 90) {
      counter.Decrease(group, amount);
      plain.Decrease(group, amount);
    } else if (choice < 96) {
      const SizeGroup other = group == SizeGroup::kSmall ? SizeGroup::kLarge : SizeGroup::kSmall;
      counter.Move(group, other, amount);
      plain.Move(group, other, amount);
    } else if (choice < 98) {
      counter.ResetAccumulated();
      plain.ResetAccumulated();
    } else {
      counter.ResetPeak();
      plain.ResetPeak();
    }
    ExpectSame(counter, plain);
  }
}

// Blocks are allocated, and freed at once or after awaiting a stream: active ends with the latter.
TEST_P(Counters, OfWhatIsActiveTellWhatAPlainFigureTells) {
  Statistics statistics;
  PlainFigure active;
  std::array<int64_t, 3> awaiting = {};
  for (int step = 0; step < 2000 && !HasFailure(); ++step) {
    const SizeGroup group = DrawGroup();
    int64_t& waits = awaiting[static_cast<size_t>(group)];
    const int64_t choice = Draw(0, 99);
    const int64_t held = statistics.allocated_bytes[group].current;
    if (choice < 45) {
      const int64_t amount = Draw(1, 1000);
      statistics.allocated_bytes.Increase(group, amount);
      if (awaiting[1] + awaiting[2] > 0) statistics.awaiting_bytes.NotePeaks(statistics.allocated_bytes, group);
      active.Increase(group, amount);
    } else if (choice < 65) {
      const int64_t amount = Draw(0, held);
      statistics.allocated_bytes.Decrease(group, amount);
      active.Decrease(group, amount);
    } else if (choice < 80) {
      const int64_t amount = Draw(0, held);
      statistics.allocated_bytes.Decrease(group, amount);
      statistics.awaiting_bytes.Begin(group, amount);
      waits += amount;
    } else if (choice < 96) {
      const int64_t amount = Draw(0, 1) == 0 ? waits : Draw(0, waits);
      statistics.awaiting_bytes.End(group, amount);
      active.Decrease(group, amount);
      waits -= amount;
    } else if (choice < 98) {
      statistics.ResetAccumulated();
      active.ResetAccumulated();
    } else {
      statistics.ResetPeaks();
      active.ResetPeak();
    }
    ExpectSame(statistics.active_bytes(), active);
  }
}

INSTANTIATE_TEST_SUITE_P(Seed, Counters, testing::Range(1, 11), testing::PrintToStringParamName());

}  // namespace
}  // namespace frugal
