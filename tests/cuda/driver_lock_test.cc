#include "cuda/simulated/driver_lock.h"

#include <chrono>
#include <thread>

#include "cuda/simulated/machine.h"
#include "gtest/gtest.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

// The wait of a call that another thread makes.
Nanoseconds HoldElsewhere(DriverLock& lock, Nanoseconds cost) {
  Nanoseconds waited{0};
  std::thread([&] { waited = lock.Hold(cost); }).join();
  return waited;
}

TEST(DriverLockTest, AThreadDoesNotWaitForItself) {
  Clock clock;
  clock.Set(Nanoseconds(0));
  DriverLock lock(clock, nullptr, /*takes_time=*/false);
  EXPECT_EQ(lock.Hold(microseconds(30)), Nanoseconds(0));
  EXPECT_EQ(lock.Hold(microseconds(30)), Nanoseconds(0));
}

TEST(DriverLockTest, AnotherThreadWaitsUntilTheCallsBeforeItsOwnHaveLeft) {
  Clock clock;
  clock.Set(Nanoseconds(0));
  DriverLock lock(clock, nullptr, false);
  EXPECT_EQ(lock.Hold(microseconds(30)), Nanoseconds(0));
  EXPECT_EQ(HoldElsewhere(lock, microseconds(5)), microseconds(30));
  EXPECT_EQ(lock.Hold(microseconds(1)), microseconds(5)) << "its own 30 had passed for it";
  clock.Set(microseconds(40));
  EXPECT_EQ(HoldElsewhere(lock, microseconds(5)), Nanoseconds(0)) << "the driver is idle again";
}

TEST(DriverLockTest, CallThatCostsNothingWaitsForNobody) {
  Clock clock;
  clock.Set(Nanoseconds(0));
  DriverLock lock(clock, nullptr, false);
  EXPECT_EQ(lock.Hold(microseconds(30)), Nanoseconds(0));
  EXPECT_EQ(HoldElsewhere(lock, Nanoseconds(0)), Nanoseconds(0));
}

TEST(DriverLockTest, CallsMoveAClockThatWasSetIfTheyTakeTime) {
  Clock clock;
  clock.Set(Nanoseconds(0));
  DriverLock lock(clock, nullptr, /*takes_time=*/true);
  EXPECT_EQ(lock.Hold(microseconds(30)), Nanoseconds(0));
  EXPECT_EQ(clock.Now(), microseconds(30));
}

TEST(DriverLockTest, CallsTakeTimeOnTheWallsClock) {
  Clock clock;
  DriverLock lock(clock, nullptr, /*takes_time=*/true);
  const Nanoseconds begin = clock.Now();
  EXPECT_EQ(lock.Hold(microseconds(300)), Nanoseconds(0));
  EXPECT_GE(clock.Now() - begin, microseconds(300));
}

TEST(DriverTimeTest, EachKindHasItsTotalAndItsWorst) {
  Machine machine{Configuration()};
  machine.clock().Set(Nanoseconds(0));
  Address start;
  ASSERT_EQ(machine.segments().Malloc(0, MiB(2), Segments::Kind::kDevice, &start), Error::kSuccess);
  ASSERT_EQ(machine.segments().Malloc(0, MiB(20), Segments::Kind::kDevice, &start), Error::kSuccess);
  ASSERT_EQ(machine.FreeSegment(start), Error::kSuccess);
  const Calls& calls = machine.calls();
  EXPECT_EQ(calls.times(CallKind::kMalloc).total, microseconds(104 + 140));
  EXPECT_EQ(calls.times(CallKind::kMalloc).worst, microseconds(140));
  EXPECT_EQ(calls.times(CallKind::kFree).total, microseconds(200));
  EXPECT_EQ(calls.driver_time(), microseconds(104 + 140 + 200));
  machine.calls().ResetCounters();
  EXPECT_EQ(calls.times(CallKind::kMalloc).worst, Nanoseconds(0));
}

TEST(DriverTimeTest, WaitsAreBesideTheSumOfTheCosts) {
  Machine machine{Configuration()};
  machine.clock().Set(Nanoseconds(0));
  Bytes free;
  Bytes total;
  ASSERT_EQ(machine.GetMemoryInfo(0, &free, &total), Error::kSuccess);
  for (int i = 0; i < 2; ++i) {
    std::thread([&] { EXPECT_EQ(machine.GetMemoryInfo(0, &free, &total), Error::kSuccess); }).join();
  }
  EXPECT_EQ(machine.calls().driver_time(), microseconds(24));
  EXPECT_EQ(machine.calls().waits().total, microseconds(8 + 16));
  EXPECT_EQ(machine.calls().waits().worst, microseconds(16));
}

TEST(DriverTimeTest, CostsAreThoseThatTheMachineWasGiven) {
  Configuration configuration;
  configuration.costs.memory_info = 1'234;
  Machine machine(configuration);
  Bytes free;
  Bytes total;
  ASSERT_EQ(machine.GetMemoryInfo(0, &free, &total), Error::kSuccess);
  EXPECT_EQ(machine.calls().driver_time(), Nanoseconds(1'234));
}

}  // namespace
}  // namespace frugal::sim
