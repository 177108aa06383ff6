// What a request says of calls that the device refuses, and where there cannot be as much; that nothing is lost
// whichever call fails is for tests/faults.

#include <string>

#include "tests/allocator/allocator_fixture.h"

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
