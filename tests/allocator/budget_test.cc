#include "allocator/budget.h"

#include "absl/status/statusor.h"
#include "cuda/simulated/simulated_device.h"
#include "gtest/gtest.h"
#include "tests/allocator/held_books.h"

namespace frugal {
namespace {

class BudgetTest : public testing::Test {
 protected:
  BudgetTest() { EXPECT_TRUE(device_.Create(MiB(10)).ok()); }
  Bytes Left(Bytes held) {
    const absl::StatusOr<MemoryInfo> device = budget_.Ask();
    EXPECT_TRUE(device.ok()) << device.status();
    return device.ok() ? budget_.Left(*device, held) : Bytes(-1);
  }

  // Of which 54 MiB are free.
  sim::SimulatedDevice device_{{.memory = MiB(64)}};
  HeldBooks books_;
  Budget budget_{device_, books_.lock()};
  Bytes others_ = MiB(6);
};

TEST_F(BudgetTest, LeavesWhatIsFreeOnTheDevice) { EXPECT_EQ(Left(MiB(10)), MiB(54)); }

TEST_F(BudgetTest, LeavesTheReserveToTheDriver) {
  budget_.SetReserve(MiB(4));
  EXPECT_EQ(Left(MiB(10)), MiB(50));
  budget_.SetReserve(MiB(60));
  EXPECT_EQ(Left(MiB(10)), Bytes(0)) << "and not less than nothing";
}

TEST_F(BudgetTest, LeavesWhatIsMissingToTheLimitIfThatIsLess) {
  budget_.SetLimit(MiB(20), nullptr, nullptr);
  EXPECT_EQ(Left(MiB(8)), MiB(12));
  EXPECT_EQ(Left(MiB(24)), Bytes(0));
  budget_.SetLimit(MiB(100), nullptr, nullptr);
  EXPECT_EQ(Left(MiB(10)), MiB(54));
}

TEST_F(BudgetTest, CountsWhatOthersHoldBelowTheLimit) {
  budget_.SetLimit(
      MiB(20), [](void* others) { return *static_cast<Bytes*>(others); }, &others_);
  EXPECT_EQ(Left(MiB(8)), MiB(6));
}

TEST_F(BudgetTest, DoesNotTakeTheReserveFromTheLimit) {
  budget_.SetLimit(MiB(20), nullptr, nullptr);
  budget_.SetReserve(MiB(4));
  EXPECT_EQ(Left(MiB(8)), MiB(12));
}

TEST_F(BudgetTest, TellsWhenTheDeviceCannotSay) {
  ASSERT_TRUE(device_.SetFaults("memory_info@1=invalid_value"));
  EXPECT_FALSE(budget_.Ask().ok());
}

}  // namespace
}  // namespace frugal
