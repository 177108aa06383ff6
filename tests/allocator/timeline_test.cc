#include "allocator/timeline.h"

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

class TimelineTest : public testing::Test {
 protected:
  sim::SimulatedDevice device_{{.memory = MiB(64)}};
  Timeline timeline_{device_, kMain};
};

TEST_F(TimelineTest, ThePresentTickHasNotPassedEvenOnAnIdleStream) {
  EXPECT_FALSE(*timeline_.HasPassed(timeline_.now()));
  EXPECT_EQ(device_.calls(sim::CallKind::kEventQuery), 0u);
}

TEST_F(TimelineTest, WhatWasNeverUsedHasPassed) { EXPECT_TRUE(*timeline_.HasPassed(0)); }

TEST_F(TimelineTest, ATickPassesWithTheWorkThatWasToldInIt) {
  device_.MakeBusyUntil(kMain, sim::Nanoseconds(100));
  const Timeline::Tick tick = timeline_.now();
  ASSERT_TRUE(timeline_.Mark().ok());
  device_.MakeBusyUntil(kMain, sim::Nanoseconds(200));
  EXPECT_FALSE(*timeline_.HasPassed(tick));
  device_.AdvanceTo(sim::Nanoseconds(100));
  EXPECT_TRUE(*timeline_.HasPassed(tick));
}

TEST_F(TimelineTest, OneAnswerServesAllEarlierTicks) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(timeline_.Mark().ok());
  ASSERT_TRUE(*timeline_.HasPassed(5));
  const uint64_t queries = device_.calls(sim::CallKind::kEventQuery);
  for (Timeline::Tick tick = 1; tick <= 5; ++tick) EXPECT_TRUE(*timeline_.HasPassed(tick));
  EXPECT_EQ(device_.calls(sim::CallKind::kEventQuery), queries);
}

TEST_F(TimelineTest, SynchronizeEndsThePresentTick) {
  device_.MakeBusyUntil(kMain, sim::Nanoseconds(100));
  const Timeline::Tick tick = timeline_.now();
  ASSERT_TRUE(timeline_.Synchronize(tick).ok());
  EXPECT_GT(timeline_.now(), tick);
  EXPECT_TRUE(*timeline_.HasPassed(tick));
}

TEST_F(TimelineTest, ARefusedMarkChangesNothing) {
  ASSERT_TRUE(device_.SetFaults("event_record@1=invalid_value"));
  EXPECT_FALSE(timeline_.Mark().ok());
  EXPECT_EQ(timeline_.now(), 1);
  ASSERT_TRUE(timeline_.Mark().ok());
  EXPECT_TRUE(*timeline_.HasPassed(1));
}

TEST_F(TimelineTest, ATickIsKnownByItsLowerHalf) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(timeline_.Mark().ok());
  for (Timeline::Tick tick = 0; tick <= timeline_.now(); ++tick) {
    EXPECT_EQ(timeline_.Expand(static_cast<uint32_t>(tick)), tick);
  }
}

TEST_F(TimelineTest, NobodyWaitsForATickThatIsKnownToHavePassed) {
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(timeline_.Mark().ok());
  ASSERT_TRUE(*timeline_.HasPassed(2));
  for (Timeline::Tick tick = 0; tick <= 2; ++tick) EXPECT_TRUE(timeline_.MakeWait(kSide, tick).ok());
  EXPECT_EQ(device_.calls(sim::CallKind::kStreamWait), 0u);
  ASSERT_TRUE(timeline_.Mark().ok());
  EXPECT_TRUE(timeline_.MakeWait(kSide, 3).ok());
  EXPECT_EQ(device_.calls(sim::CallKind::kStreamWait), 1u);
}

}  // namespace
}  // namespace frugal
