#include "simulated_gpu/machine/driver_lock.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"
#include "simulated_gpu/tests/simulated_machine.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

TEST(DriverLockTest, CallsMoveAClockThatWasSet) {
  Clock clock;
  clock.Set(Nanoseconds(0));
  DriverLock lock(clock, nullptr);
  lock.Hold(microseconds(30));
  lock.Hold(Nanoseconds(0));
  EXPECT_EQ(clock.Now(), microseconds(30));
  std::thread([&] { lock.Hold(microseconds(5)); }).join();
  EXPECT_EQ(clock.Now(), microseconds(35));
}

TEST(DriverLockTest, CallsOfSeveralThreadsComeOneAfterTheOtherOnTheWallsClock) {
  Clock clock;
  DriverLock lock(clock, nullptr);
  const Nanoseconds begin = clock.Now();
  std::thread other([&] { lock.Hold(microseconds(300)); });
  lock.Hold(microseconds(300));
  other.join();
  EXPECT_GE(clock.Now() - begin, microseconds(600));
}

class DriverTimeTest : public SimulatedMachine {};

TEST_F(DriverTimeTest, IsTheSumOfTheCosts) {
  const Address segment = Malloc(MiB(2));
  Malloc(MiB(20));
  ASSERT_EQ(machine_.FreeSegment(segment), Error::kSuccess);
  EXPECT_EQ(machine_.calls().driver_time(), microseconds(104 + 140 + 200));
  EXPECT_EQ(now(), Nanoseconds(0)) << "which nobody has waited for";
}

TEST(DriverCostsTest, AreThoseThatTheMachineWasGiven) {
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
