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
    return device.ok() ? memory_limit_.Left(*device, held) : Bytes(-1);
  }

  // Of which 54 MiB are free.
  sim::SimulatedDevice device_{{.memory = MiB(64)}};
  HeldLocks books_;
  MemoryLimit memory_limit_{device_, books_.lock()};
  Bytes others_ = MiB(6);
};

TEST_F(MemoryLimitTest, LeavesWhatIsFreeOnTheDevice) { EXPECT_EQ(Left(MiB(10)), MiB(54)); }

TEST_F(MemoryLimitTest, LeavesTheReserveToTheDriver) {
  memory_limit_.SetReserve(MiB(4));
  EXPECT_EQ(Left(MiB(10)), MiB(50));
  memory_limit_.SetReserve(MiB(60));
  EXPECT_EQ(Left(MiB(10)), Bytes(0)) << "and not less than nothing";
}

TEST_F(MemoryLimitTest, LeavesWhatIsMissingToTheLimitIfThatIsLess) {
  memory_limit_.SetLimit(MiB(20), nullptr, nullptr);
  EXPECT_EQ(Left(MiB(8)), MiB(12));
  EXPECT_EQ(Left(MiB(24)), Bytes(0));
  memory_limit_.SetLimit(MiB(100), nullptr, nullptr);
  EXPECT_EQ(Left(MiB(10)), MiB(54));
}

TEST_F(MemoryLimitTest, CountsWhatOthersHoldBelowTheLimit) {
  memory_limit_.SetLimit(
      MiB(20), [](void* others) { return *static_cast<Bytes*>(others); }, &others_);
  EXPECT_EQ(Left(MiB(8)), MiB(6));
}

TEST_F(MemoryLimitTest, DoesNotTakeTheReserveFromTheLimit) {
  memory_limit_.SetLimit(MiB(20), nullptr, nullptr);
  memory_limit_.SetReserve(MiB(4));
  EXPECT_EQ(Left(MiB(8)), MiB(12));
}

TEST_F(MemoryLimitTest, TellsWhenTheDeviceCannotSay) {
  ASSERT_TRUE(device_.SetFaults("memory_info@1=invalid_value"));
  EXPECT_FALSE(memory_limit_.Ask().ok());
}

}  // namespace
}  // namespace frugal
