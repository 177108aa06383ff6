#include "allocator/backing/memory_limit.h"

#include "absl/status/statusor.h"
#include "cuda/simulated/simulated_device.h"
#include "gtest/gtest.h"
#include "tests/allocator/held_locks.h"

namespace frugal {
namespace {

class MemoryLimitTest : public testing::Test {
 protected:
  MemoryLimitTest() { EXPECT_TRUE(device_.Create(MiB(10)).ok()); }
  Bytes Left(Bytes held) {
    const absl::StatusOr<MemoryInfo> device = memory_limit_.Ask();
    EXPECT_TRUE(device.ok()) << device.status();
    shared_.TakeAnyway(held);
    const Bytes left = device.ok() ? memory_limit_.Left(*device) : Bytes(-1);
    shared_.GiveBack(held);
    return left;
  }

  // Of which 54 MiB are free.
  sim::SimulatedDevice device_{{.memory = MiB(64)}};
  HeldLocks books_;
  SharedLimit shared_;
  MemoryLimit memory_limit_{device_, shared_, books_.lock()};
};

TEST_F(MemoryLimitTest, LeavesWhatIsFreeOnTheDevice) { EXPECT_EQ(Left(MiB(10)), MiB(54)); }

TEST_F(MemoryLimitTest, LeavesTheReserveToTheDriver) {
  memory_limit_.SetReserve(MiB(4));
  EXPECT_EQ(Left(MiB(10)), MiB(50));
  memory_limit_.SetReserve(MiB(60));
  EXPECT_EQ(Left(MiB(10)), Bytes(0)) << "and not less than nothing";
}

TEST_F(MemoryLimitTest, LeavesWhatIsMissingToTheLimitIfThatIsLess) {
  shared_.Set(MiB(20));
  EXPECT_EQ(Left(MiB(8)), MiB(12));
  EXPECT_EQ(Left(MiB(24)), Bytes(0));
  shared_.Set(MiB(100));
  EXPECT_EQ(Left(MiB(10)), MiB(54));
}

TEST_F(MemoryLimitTest, CountsWhatOthersHoldBelowTheLimit) {
  shared_.Set(MiB(20));
  shared_.TakeAnyway(MiB(6));
  EXPECT_EQ(Left(MiB(8)), MiB(6));
}

TEST_F(MemoryLimitTest, DoesNotTakeTheReserveFromTheLimit) {
  shared_.Set(MiB(20));
  memory_limit_.SetReserve(MiB(4));
  EXPECT_EQ(Left(MiB(8)), MiB(12));
}

TEST_F(MemoryLimitTest, TellsWhenTheDeviceCannotSay) {
  ASSERT_TRUE(device_.SetFaults("memory_info@1=invalid_value"));
  EXPECT_FALSE(memory_limit_.Ask().ok());
}

}  // namespace
}  // namespace frugal
