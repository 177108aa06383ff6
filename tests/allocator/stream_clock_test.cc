#include "allocator/blocks/stream_clock.h"

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

class StreamClockTest : public testing::Test {
 protected:
  sim::SimulatedDevice device_{{.memory = MiB(64)}};
  StreamClock clock_{device_, kMain};
};

TEST_F(StreamClockTest, ThePresentTickHasNotPassedEvenOnAnIdleStream) {
  EXPECT_FALSE(*clock_.HasPassed(clock_.now()));
  EXPECT_EQ(device_.calls(sim::CallKind::kEventQuery), 0u);
}

TEST_F(StreamClockTest, WhatWasNeverUsedHasPassed) { EXPECT_TRUE(*clock_.HasPassed(0)); }

TEST_F(StreamClockTest, ATickPassesWithTheWorkThatWasToldInIt) {
  device_.MakeBusyUntil(kMain, sim::Nanoseconds(100));
  const StreamClock::Tick tick = clock_.now();
  ASSERT_TRUE(clock_.Mark().ok());
  device_.MakeBusyUntil(kMain, sim::Nanoseconds(200));
  EXPECT_FALSE(*clock_.HasPassed(tick));
  device_.AdvanceTo(sim::Nanoseconds(100));
  EXPECT_TRUE(*clock_.HasPassed(tick));
}

TEST_F(StreamClockTest, OneAnswerServesAllEarlierTicks) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(clock_.Mark().ok());
  ASSERT_TRUE(*clock_.HasPassed(5));
  const uint64_t queries = device_.calls(sim::CallKind::kEventQuery);
  for (StreamClock::Tick tick = 1; tick <= 5; ++tick) EXPECT_TRUE(*clock_.HasPassed(tick));
  EXPECT_EQ(device_.calls(sim::CallKind::kEventQuery), queries);
}

TEST_F(StreamClockTest, SynchronizeEndsThePresentTick) {
  device_.MakeBusyUntil(kMain, sim::Nanoseconds(100));
  const StreamClock::Tick tick = clock_.now();
  ASSERT_TRUE(clock_.Synchronize(tick).ok());
  EXPECT_GT(clock_.now(), tick);
  EXPECT_TRUE(*clock_.HasPassed(tick));
}

TEST_F(StreamClockTest, ARefusedMarkChangesNothing) {
  ASSERT_TRUE(device_.SetFaults("event_record@1=invalid_value"));
  EXPECT_FALSE(clock_.Mark().ok());
  EXPECT_EQ(clock_.now(), 1);
  ASSERT_TRUE(clock_.Mark().ok());
  EXPECT_TRUE(*clock_.HasPassed(1));
}

TEST_F(StreamClockTest, ATickIsKnownByItsLowerHalf) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(clock_.Mark().ok());
  for (StreamClock::Tick tick = 0; tick <= clock_.now(); ++tick) {
    EXPECT_EQ(clock_.Expand(static_cast<uint32_t>(tick)), tick);
  }
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
