// The device may refuse any call. Each is made to fail in turn; whatever fails, nothing is lost.

#include <string>

#include "absl/strings/str_format.h"
#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using Refusals = AllocatorTest;

// Every second page is free, on two streams: the next large request stitches them and creates the rest.
TEST_F(Refusals, OfAnyCallLeaveEveryBlockAsItWas) {
  for (const char* kind : {"create", "map", "set_access", "reserve", "event_record", "event_query"}) {
    for (int call = 1; call <= 40; ++call) {
      SCOPED_TRACE(absl::StrFormat("%s call %d fails", kind, call));
      sim::SimulatedDevice device({.memory = MiB(64)});
      AddressDirectory directory;
      DeviceAllocator allocator(device, directory, nullptr);
      std::vector<Address> kept;
      for (int i = 0; i < 8; ++i) {
        const Address keep = allocator.Allocate(MiB(2), kMain)->address;
        const Address hole = allocator.Allocate(MiB(2), i % 2 == 0 ? kMain : kSide)->address;
        kept.push_back(keep);
        ASSERT_TRUE(allocator.Free(hole).ok());
      }
      ASSERT_TRUE(device.SetFaults(absl::StrFormat("%s@%d=invalid_value", kind, call)));
      absl::StatusOr<Allocation> block = allocator.Allocate(MiB(24), kMain);
      ASSERT_TRUE(device.SetFaults(""));
      allocator.inspect().CheckInvariants();
      ASSERT_TRUE(block.ok()) << "a call that fails once is made again: " << block.status();
      ASSERT_TRUE(allocator.Free(block->address).ok());
      for (Address keep : kept) ASSERT_TRUE(allocator.Free(keep).ok());
      ASSERT_TRUE(allocator.Trim().ok());
      EXPECT_EQ(device.used(), Bytes(0));
    }
  }
}

// As the test above, but the driver goes on refusing.
TEST_F(Refusals, ThatDoNotEndLeaveEveryBlockAsItWas) {
  for (const char* kind : {"create", "map", "set_access", "reserve"}) {
    for (int call = 1; call <= 12; ++call) {
      SCOPED_TRACE(absl::StrFormat("%s call %d and all after fail", kind, call));
      sim::SimulatedDevice device({.memory = MiB(64)});
      AddressDirectory directory;
      DeviceAllocator allocator(device, directory, nullptr);
      const Address kept = allocator.Allocate(MiB(2), kMain)->address;
      ASSERT_TRUE(allocator.Free(allocator.Allocate(MiB(4), kSide)->address).ok());
      const Statistics before = allocator.GetStatistics();
      ASSERT_TRUE(device.SetFaults(absl::StrFormat("%s@%d+=invalid_value", kind, call)));
      absl::StatusOr<Allocation> block = allocator.Allocate(MiB(24), kMain);
      ASSERT_TRUE(device.SetFaults(""));
      allocator.inspect().CheckInvariants();
      if (!block.ok()) {
        EXPECT_FALSE(absl::IsResourceExhausted(block.status())) << block.status();
        const Statistics after = allocator.GetStatistics();
        EXPECT_EQ(after.reserved_bytes[SizeGroup::kAll].current, before.reserved_bytes[SizeGroup::kAll].current);
        EXPECT_EQ(after.active_bytes()[SizeGroup::kAll].current, before.active_bytes()[SizeGroup::kAll].current);
        EXPECT_EQ(device.used().count(), after.reserved_bytes[SizeGroup::kAll].current);
        block = allocator.Allocate(MiB(24), kMain);
      }
      ASSERT_TRUE(block.ok()) << "the same request, without the fault: " << block.status();
      ASSERT_TRUE(allocator.Free(block->address).ok());
      ASSERT_TRUE(allocator.Free(kept).ok());
      ASSERT_TRUE(allocator.Trim().ok());
      EXPECT_EQ(device.used(), Bytes(0));
    }
  }
}

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

TEST_F(Refusals, OfUnmapDuringTrimLoseNothing) {
  for (int call = 1; call <= 20; ++call) {
    SCOPED_TRACE(call);
    Remapped remapped;
    auto& [device, directory, allocator, blocks] = remapped;
    ASSERT_TRUE(device.SetFaults(absl::StrFormat("%s@%d=invalid_value", call % 2 == 0 ? "unmap" : "release", call)));
    (void)allocator.Trim().ok();
    ASSERT_TRUE(device.SetFaults(""));
    allocator.inspect().CheckInvariants();
    for (size_t i = 1; i < blocks.size(); i += 2) ASSERT_TRUE(allocator.Free(blocks[i]).ok());
    ASSERT_TRUE(allocator.Allocate(MiB(64), kMain).ok()) << "all memory is still to be had";
  }
}

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

TEST_F(Refusals, OfAnEventKeepTheBlockAwayUntilItCanBeRecorded) {
  const Address block = Allocate(MiB(8));
  UseOn(block, kSide, 100);
  ASSERT_TRUE(device_.SetFaults("event_record@1=invalid_value"));
  Free(block);
  EXPECT_EQ(statistics().num_driver_failures, 1);
  ASSERT_TRUE(device_.SetFaults(""));
  EXPECT_NE(Allocate(MiB(8)), block);
  AdvanceTo(100);
  EXPECT_EQ(Allocate(MiB(8)), block);
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
