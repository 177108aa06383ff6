// The device may refuse any call. Each is made to fail in turn; whatever fails, nothing is lost.

#include <string>

#include "absl/strings/str_format.h"
#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using Refusals = AllocatorTest;

TEST_F(Refusals, ThatAreMadeUpForAreCountedAndNamedWhereTheRequestFailsAllTheSame) {
  ASSERT_TRUE(device_.SetFaults("memory_info@1=invalid_value"));
  EXPECT_TRUE(IsOutOfMemory(GiB(1)));
  EXPECT_EQ(statistics().num_driver_failures, 1);
  EXPECT_NE(std::string(LastOutOfMemory().driver_failure.message()), "");
}

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

// Sixteen blocks, every other one of which was freed; their handles have moved once, and old views of them are left.
struct Remapped {
  Remapped() {
    for (int i = 0; i < 16; ++i) blocks.push_back(allocator.Allocate(MiB(2), kMain)->address);
    for (size_t i = 0; i < blocks.size(); i += 2) EXPECT_TRUE(allocator.Free(blocks[i]).ok());
    EXPECT_TRUE(allocator.Free(allocator.Allocate(MiB(16), kMain)->address).ok());
  }

  sim::SimulatedDevice device{{.memory = MiB(64)}};
  AddressDirectory directory;
  DeviceAllocator allocator{device, directory, nullptr};
  std::vector<Address> blocks;
};

// A block that awaits a stream, old views of handles that have moved, whole free pages.
TEST_F(Refusals, OfOneCallDuringTrimAreMadeUpFor) {
  int64_t failures = 0;
  for (const char* kind : {"unmap", "release", "sync", "event_record", "event_query"}) {
    for (const char* error : {"invalid_value", "out_of_memory", "late_unknown"}) {
      for (int call = 1; call <= 12; ++call) {
        const std::string plan = absl::StrFormat("%s@%d=%s", kind, call, error);
        SCOPED_TRACE(plan);
        Remapped remapped;
        auto& [device, directory, allocator, blocks] = remapped;
        ASSERT_TRUE(allocator.RecordStream(blocks[1], kSide).ok());
        ASSERT_TRUE(allocator.Free(blocks[1]).ok());
        const Bytes held = allocator.inspect().Held();
        ASSERT_TRUE(device.SetFaults(plan));
        absl::StatusOr<Bytes> returned = allocator.Trim();
        failures += static_cast<int64_t>(device.faults());
        ASSERT_TRUE(device.SetFaults(""));
        allocator.inspect().CheckInvariants();
        ASSERT_TRUE(returned.ok()) << returned.status();
        EXPECT_EQ(allocator.inspect().Held(), MiB(14)) << "seven blocks are in use";
        EXPECT_EQ(*returned, held - MiB(14)) << "what both attempts gave back";
      }
    }
  }
  EXPECT_GT(failures, 60);
}

TEST_F(Refusals, OfOneCallWhileIdleMemoryGoesBackAreMadeUpFor) {
  Free(Allocate(MiB(8)));
  ASSERT_TRUE(device_.SetFaults("event_record@1=invalid_value"));
  ASSERT_TRUE(allocator_->MarkUse().ok());
  EXPECT_EQ(device_.faults(), 1u);
  ASSERT_TRUE(device_.SetFaults("release@2=invalid_value"));
  absl::StatusOr<Bytes> returned = allocator_->ReturnIdle(MiB(6));
  EXPECT_EQ(device_.faults(), 1u);
  ASSERT_TRUE(returned.ok()) << returned.status();
  EXPECT_EQ(*returned, MiB(6));
  EXPECT_EQ(device_.used(), allocator_->inspect().Held());
  EXPECT_EQ(statistics().num_driver_failures, 2);
}

TEST_F(Refusals, ThatGoOnDuringTrimAreToldToTheCaller) {
  Free(Allocate(MiB(8)));
  ASSERT_TRUE(device_.SetFaults("unmap@1+=invalid_value"));
  EXPECT_FALSE(allocator_->Trim().ok());
  ASSERT_TRUE(device_.SetFaults(""));
  EXPECT_EQ(allocator_->inspect().Held(), MiB(8));
  allocator_->inspect().CheckInvariants();
  EXPECT_EQ(*allocator_->Trim(), MiB(8));
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
