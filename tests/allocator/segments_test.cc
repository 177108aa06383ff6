// Segments of cudaMalloc: all that a device without virtual memory has, and beside handles what other processes open.

#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {
namespace {

class Segments : public AllocatorTest {
 protected:
  Segments() : AllocatorTest(MiB(64), /*virtual_memory=*/false) {}
};

TEST_F(Segments, ServeBlocksWithoutAnyVirtualMemoryCall) {
  Allocate(Bytes(512));
  Allocate(MiB(3));
  Allocate(MiB(18));
  EXPECT_EQ(calls(CallKind::kMalloc), 3u);
  EXPECT_EQ(calls(CallKind::kCreate) + calls(CallKind::kReserve) + calls(CallKind::kMap), 0u);
  EXPECT_EQ(all(statistics().reserved_bytes), MiB(2 + 20 + 18).count());
  EXPECT_EQ(all(statistics().segment), 3);
}

// The driver may free a segment without waiting for the work that uses it, as the simulated one does.
class SegmentsUnderWork : public AllocatorTest {
 protected:
  SegmentsUnderWork() : AllocatorTest({.memory = MiB(64), .virtual_memory = false, .order = true}, nullptr) {}
  ~SegmentsUnderWork() override {
    EXPECT_EQ(device_.order_violations(), 0u) << device_.order_report();
    EXPECT_TRUE(device_.SynchronizeAll().ok());
  }

  // A segment of MiB(40) that is free, while work of `stream` uses it until `time`.
  void LeaveUsed(Stream stream, int64_t time) {
    const Address block = Allocate(MiB(40), stream);
    device_.Touch(stream, block, MiB(40), /*writes=*/true, "kernel");
    MakeBusyUntil(stream, time);
    Free(block);
  }
};

TEST_F(SegmentsUnderWork, AreNotIdleUntilTheWorkIsDoneAndNobodyWaits) {
  LeaveUsed(kMain, 100);
  MarkUse();
  EXPECT_EQ(ReturnIdle(), Bytes(0));
  EXPECT_EQ(now(), 0);
  AdvanceTo(100);
  EXPECT_EQ(ReturnIdle(), MiB(40));
}

TEST_F(SegmentsUnderWork, OfAStreamThatWasNotSaidToUseThemAreNotIdleEither) {
  LeaveUsed(kMain, 0);
  // A program that forgot record_stream.
  Free(Allocate(MiB(2), kSide));
  MakeBusyUntil(kSide, 100);
  MarkUse();
  EXPECT_EQ(ReturnIdle(), Bytes(0));
  AdvanceTo(100);
  EXPECT_EQ(ReturnIdle(), MiB(40 + 20));
}

TEST_F(SegmentsUnderWork, StayWhileTheirStreamIsCapturedAndARequestFailsCleanly) {
  LeaveUsed(kMain, 100);
  device_.BeginCapture(kMain);
  EXPECT_TRUE(IsOutOfMemory(MiB(50), kSide));
  EXPECT_TRUE(device_.EndCapture(kMain)) << "nothing has disturbed the capture";
  EXPECT_EQ(Trim(), MiB(40));
}

// Notes whose the directory says a segment is while the driver frees it: by then another may get the address.
class AskingDevice final : public ForwardingDevice {
 public:
  AskingDevice(Device& device, const AddressDirectory& directory) : ForwardingDevice(device), directory_(directory) {}

  absl::Status Free(Address segment) override {
    owner_ = directory_.Find(segment);
    return ForwardingDevice::Free(segment);
  }
  DeviceAllocator* owner() const { return owner_; }

 private:
  const AddressDirectory& directory_;
  DeviceAllocator* owner_ = nullptr;
};

TEST_F(Segments, AreNobodysFromTheDriversCallOnUnlessItFails) {
  AskingDevice device(device_, directory_);
  DeviceAllocator allocator(device, directory_, /*reclaimer=*/nullptr);
  const Address block = allocator.Allocate(MiB(14), kMain)->address;
  ASSERT_TRUE(allocator.Free(block).ok());
  ASSERT_TRUE(device_.SetFaults("free@1=unknown,free@2=unknown"));
  EXPECT_FALSE(allocator.Trim().ok());
  EXPECT_EQ(device.owner(), nullptr);
  EXPECT_EQ(directory_.Find(block), &allocator) << "it is still held";
  allocator.inspect().CheckInvariants();
  ASSERT_TRUE(device_.SetFaults(""));
  EXPECT_EQ(allocator.Trim().value_or(Bytes(0)), MiB(14));
  EXPECT_EQ(device.owner(), nullptr);
  EXPECT_EQ(directory_.Find(block), nullptr);
}

// On a device that can map.
class SegmentsBesideHandles : public AllocatorTest {
 protected:
  SegmentsBesideHandles() : AllocatorTest(MiB(64)) {}

  Address InSegment(Bytes size) { return AllocateFrom({.kind = MemoryKind::kSegment}, size); }
  bool IsMapped(Address address) const { return allocator_->inspect().FindSegment(address)->mapped; }
};

TEST_F(SegmentsBesideHandles, AreWhatWasAskedForAndNothingElseIs) {
  EXPECT_FALSE(IsMapped(InSegment(MiB(3))));
  EXPECT_TRUE(IsMapped(Allocate(MiB(3))));
  EXPECT_EQ(all(statistics().reserved_bytes), MiB(20 + 4).count());
  EXPECT_EQ(all(statistics().allocated_bytes), MiB(6).count());
}

TEST_F(SegmentsBesideHandles, JoinWhatIsFreeInThem) {
  const Address first = InSegment(MiB(8));
  const Address second = InSegment(MiB(8));
  Free(first);
  Free(second);
  EXPECT_EQ(InSegment(MiB(20)), first);
  EXPECT_EQ(calls(CallKind::kMalloc), 1u);
}

TEST_F(SegmentsBesideHandles, OfTheUsualSizeThatDoNotFitAreMadeAsSmallAsTheRequest) {
  Allocate(MiB(60));
  InSegment(MiB(3));
  EXPECT_EQ(all(statistics().reserved_bytes), MiB(64).count());
}

TEST_F(SegmentsBesideHandles, WhatIsFreeInOneKindGoesBackForTheOther) {
  Free(InSegment(MiB(60)));
  const Address moved = Allocate(MiB(60));
  EXPECT_TRUE(IsMapped(moved));
  Free(moved);
  EXPECT_FALSE(IsMapped(InSegment(MiB(60))));
}

TEST_F(SegmentsBesideHandles, FreePartsOfOneServeARequestThatWouldFail) {
  const Address front = InSegment(MiB(8));
  InSegment(MiB(8));
  Allocate(MiB(44));
  Free(front);
  EXPECT_FALSE(IsMapped(Allocate(MiB(8))));
}

TEST_F(SegmentsBesideHandles, FreePagesServeNoRequestForASegmentInPart) {
  const Address front = Allocate(MiB(1));
  Allocate(MiB(1) - kGrain);
  Allocate(MiB(62));
  Free(front);
  EXPECT_TRUE(absl::IsResourceExhausted(TryFrom({.kind = MemoryKind::kSegment}, kGrain).status()));
  EXPECT_EQ(LastOutOfMemory().requested, kGrain);
}

TEST_F(SegmentsBesideHandles, ThatAreKeptStayHoweverFree) {
  const Address block = InSegment(MiB(16));
  ASSERT_TRUE(allocator_->KeepInPlace(block, MiB(16), true).ok());
  Free(block);
  EXPECT_EQ(Trim(), Bytes(0));
  EXPECT_TRUE(IsOutOfMemory(MiB(60), kSide));
  EXPECT_EQ(InSegment(MiB(16)), block);
  ASSERT_TRUE(allocator_->KeepInPlace(block, MiB(16), false).ok());
  Free(block);
  EXPECT_EQ(Trim(), MiB(16));
}

TEST_F(SegmentsBesideHandles, AreKeptOnlyWhereTheyAreInUse) {
  const Address block = InSegment(MiB(16));
  EXPECT_TRUE(absl::IsFailedPrecondition(allocator_->KeepInPlace(block, MiB(16), false)));
  EXPECT_TRUE(absl::IsNotFound(allocator_->KeepInPlace(block, MiB(32), true)));
  Free(block);
  EXPECT_TRUE(absl::IsNotFound(allocator_->KeepInPlace(block, MiB(16), true)));
}

TEST_F(SegmentsBesideHandles, StayAwake) {
  const Address segment = InSegment(MiB(8));
  Allocate(MiB(8));
  FallAsleep();
  EXPECT_EQ(LetGo(), MiB(8));
  const std::vector<Sleep::StayedPart> stayed = sleep().Stayed(All);
  ASSERT_EQ(stayed.size(), 1u);
  EXPECT_EQ(stayed[0].block.address, segment);
}

}  // namespace
}  // namespace frugal
