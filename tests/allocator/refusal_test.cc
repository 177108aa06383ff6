// What a request says of calls that the device refuses, and where there cannot be as much; that nothing is lost
// whichever call fails is for tests/faults.

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

using Refusals = AllocatorTest;

TEST_F(Refusals, OfEarlierRequestsAreNotNamed) {
  ASSERT_TRUE(device_.SetFaults("map@1=invalid_value"));
  Allocate(MiB(2));
  EXPECT_EQ(statistics().num_driver_failures, 1);
  EXPECT_TRUE(IsOutOfMemory(GiB(1)));
  EXPECT_TRUE(LastOutOfMemory().driver_failure.ok());
}

TEST_F(Refusals, OfTheDriverKeepTheDriversOwnNameForTheError) {
  ASSERT_TRUE(device_.SetFaults("map@1+=invalid_value"));
  const absl::Status status = allocator_->Allocate(MiB(2), kMain).status();
  EXPECT_NE(std::string(status.message()), "");
  EXPECT_FALSE(absl::IsResourceExhausted(status));
}

// A view whose mapping could neither be opened for access nor undone is never used: where a request that was refused is
// made of handles of the same sizes at the same place, if it is made again.
class RefusedAccess : public SizedHandlesTest, public testing::WithParamInterface<const char*> {
 protected:
  static PolicyOptions AtAnyPrice() {
    PolicyOptions options = Options();
    options.waste_part = 1;
    return options;
  }
  RefusedAccess() : SizedHandlesTest(64, AtAnyPrice()) {}
};

TEST_P(RefusedAccess, LeavesNoBlockThatCannotBeUsed) {
  for (const char* error : {"invalid_value", "out_of_memory"}) {
    for (const char* unmaps : {"", ",unmap@1=", ",unmap@2=", ",unmap@3=", ",unmap@1+=", ",unmap@2+=", ",unmap@3+="}) {
      const std::string plan = absl::StrCat(GetParam(), error, unmaps, *unmaps == '\0' ? "" : error);
      SCOPED_TRACE(plan);
      ASSERT_TRUE(device_.SetFaults(plan));
      const absl::StatusOr<Allocation> first = allocator_->Allocate(kPageSize * 20, kMain);
      allocator_->inspect().CheckInvariants();
      EXPECT_TRUE(!first.ok() || between_.IsOpen(first->address, kPageSize * 20));
      ASSERT_TRUE(device_.SetFaults(""));
      const Address second = AllocatePages(20);
      EXPECT_TRUE(between_.IsOpen(second, kPageSize * 20));
      if (first.ok()) Free(first->address);
      Free(second);
      Trim();
      EXPECT_EQ(device_.used(), Bytes(0)) << "and nothing is lost";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, RefusedAccess, testing::Values("set_access@1=", "set_access@1+=", "map@2=", "map@3="));

// What lacks was looked up among handles of up to 64 GiB, so 128 GiB read beyond them.
TEST(LargeRequests, AreServedOrRefusedAroundEveryPowerOfTwo) {
  for (const Bytes memory : {GiB(139), GiB(180), GiB(288), GiB(1024)}) {
    sim::SimulatedDevice device({.memory = memory});
    AddressDirectory directory;
    DeviceAllocator allocator(device, directory, nullptr);
    for (int power = 20; power < 63; ++power) {
      for (const int64_t beside : {-512, 0, 512}) {
        const Bytes size((int64_t{1} << power) + beside);
        const absl::StatusOr<Allocation> made = allocator.Allocate(size, Stream{1});
        ASSERT_EQ(made.ok(), size <= memory) << size.count() << " of " << memory.count() << ": " << made.status();
        if (made.ok()) {
          EXPECT_TRUE(allocator.Free(made->address).ok());
        } else {
          EXPECT_TRUE(absl::IsResourceExhausted(made.status())) << made.status();
        }
      }
    }
    allocator.inspect().CheckInvariants();
  }
}

}  // namespace
}  // namespace frugal
