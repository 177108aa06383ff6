#include "allocator/blocks/stream_clock.h"

#include "tests/allocator/allocator_fixture.h"
#include "tests/allocator/held_locks.h"

namespace frugal {
namespace {

class StreamClockTest : public testing::Test {
 protected:
  sim::SimulatedDevice device_{{.memory = MiB(64)}};
  HeldLocks locks_;
  StreamClock clock_{device_, kMain, locks_.lock()};
};

TEST_F(StreamClockTest, OneAnswerServesAllEarlierTicks) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(clock_.Mark().ok());
  ASSERT_TRUE(*clock_.HasPassed(5));
  const uint64_t queries = device_.calls(sim::CallKind::kEventQuery);
  for (StreamClock::Tick tick = 1; tick <= 5; ++tick) EXPECT_TRUE(*clock_.HasPassed(tick));
  EXPECT_EQ(device_.calls(sim::CallKind::kEventQuery), queries);
}

TEST_F(StreamClockTest, ATickWhoseMarkWasRefusedEndsWithTheNextThatIsMade) {
  ASSERT_TRUE(device_.SetFaults("event_record@1=invalid_value"));
  EXPECT_FALSE(clock_.Mark().ok());
  EXPECT_FALSE(clock_.IsEnded(1));
  ASSERT_TRUE(clock_.Mark().ok());
  EXPECT_TRUE(clock_.IsEnded(2));
  EXPECT_TRUE(*clock_.HasPassed(1));
}

TEST_F(StreamClockTest, AHostsWaitSettlesWhatWasClosedBeforeItAndNothingAfter) {
  const StreamClock::Tick before = clock_.Close();
  const StreamClock::Tick meanwhile = clock_.Close();
  clock_.Settle(before);
  EXPECT_TRUE(clock_.IsPassed(before));
  EXPECT_FALSE(clock_.IsPassed(meanwhile));
  EXPECT_FALSE(clock_.IsEnded(meanwhile));
}

TEST_F(StreamClockTest, NobodyWaitsForATickThatIsKnownToHavePassed) {
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(clock_.Mark().ok());
  ASSERT_TRUE(*clock_.HasPassed(2));
  for (StreamClock::Tick tick = 0; tick <= 2; ++tick) EXPECT_TRUE(clock_.MakeWait(kSide, tick).ok());
  EXPECT_EQ(device_.calls(sim::CallKind::kStreamWait), 0u);
  ASSERT_TRUE(clock_.Mark().ok());
  EXPECT_TRUE(clock_.MakeWait(kSide, 3).ok());
  EXPECT_EQ(device_.calls(sim::CallKind::kStreamWait), 1u);
}

}  // namespace
}  // namespace frugal
