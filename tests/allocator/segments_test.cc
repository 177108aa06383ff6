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
class SegmentsUnderWork : public testing::Test {
 protected:
  ~SegmentsUnderWork() override {
    EXPECT_EQ(device_.order_violations(), 0u) << device_.order_report();
    EXPECT_TRUE(device_.SynchronizeAll().ok());
  }

  // A segment of MiB(40) that is free, while work of `stream` uses it until `time`.
  void LeaveUsed(Stream stream, int64_t time) {
    const Address block = allocator_.Allocate(MiB(40), stream)->address;
    device_.Touch(stream, block, MiB(40), /*writes=*/true, "kernel");
    device_.MakeBusyUntil(stream, sim::Nanoseconds(time));
    EXPECT_TRUE(allocator_.Free(block).ok());
  }
  Bytes ReturnIdle() { return allocator_.ReturnIdle(kUnlimited).value_or(Bytes(-1)); }

  sim::SimulatedDevice device_{{.memory = MiB(64), .virtual_memory = false, .order = true}};
  AddressDirectory directory_;
  DeviceAllocator allocator_{device_, directory_, /*reclaimer=*/nullptr};
};

TEST_F(SegmentsUnderWork, AreNotIdleUntilTheWorkIsDoneAndNobodyWaits) {
  LeaveUsed(kMain, 100);
  ASSERT_TRUE(allocator_.MarkUse().ok());
  EXPECT_EQ(ReturnIdle(), Bytes(0));
  EXPECT_EQ(device_.now().count(), 0);
  device_.AdvanceTo(sim::Nanoseconds(100));
  EXPECT_EQ(ReturnIdle(), MiB(40));
}

TEST_F(SegmentsUnderWork, OfAStreamThatWasNotSaidToUseThemAreNotIdleEither) {
  LeaveUsed(kMain, 0);
  // A program that forgot record_stream.
  EXPECT_TRUE(allocator_.Free(allocator_.Allocate(MiB(2), kSide)->address).ok());
  device_.MakeBusyUntil(kSide, sim::Nanoseconds(100));
  ASSERT_TRUE(allocator_.MarkUse().ok());
  EXPECT_EQ(ReturnIdle(), Bytes(0));
  device_.AdvanceTo(sim::Nanoseconds(100));
  EXPECT_EQ(ReturnIdle(), MiB(40 + 20));
}

TEST_F(SegmentsUnderWork, StayWhileTheirStreamIsCapturedAndARequestFailsCleanly) {
  LeaveUsed(kMain, 100);
  device_.BeginCapture(kMain);
  EXPECT_TRUE(absl::IsResourceExhausted(allocator_.Allocate(MiB(50), kSide).status()));
  EXPECT_TRUE(device_.EndCapture(kMain)) << "nothing has disturbed the capture";
  EXPECT_EQ(allocator_.Trim().value_or(Bytes(0)), MiB(40));
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

  absl::StatusOr<Allocation> TryInSegment(Bytes size, Stream stream = kMain, PoolId pool = {}) {
    absl::StatusOr<Allocation> made = allocator_->AllocateFrom({pool, MemoryKind::kSegment}, size, stream);
    allocator_->inspect().CheckInvariants();
    return made;
  }
  Address InSegment(Bytes size, Stream stream = kMain, PoolId pool = {}) {
    const absl::StatusOr<Allocation> made = TryInSegment(size, stream, pool);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->address : Address();
  }
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
  EXPECT_TRUE(TryInSegment(MiB(3)).ok());
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
  EXPECT_TRUE(absl::IsResourceExhausted(TryInSegment(kGrain).status()));
  EXPECT_EQ(LastOutOfMemory().requested, kGrain);
}

TEST_F(SegmentsBesideHandles, FreeBlocksServeTheirPoolAlone) {
  constexpr PoolId kPool{0, 1};
  const Address pooled = InSegment(MiB(8), kMain, kPool);
  Free(pooled);
  EXPECT_NE(InSegment(MiB(8)), pooled);
  EXPECT_EQ(InSegment(MiB(8), kMain, kPool), pooled);
}

TEST_F(SegmentsBesideHandles, FreedOnOtherStreamIsNotReusedBeforeItsEvent) {
  const Address block = InSegment(MiB(16));
  ASSERT_TRUE(allocator_->RecordStream(block, kSide).ok());
  device_.MakeBusyUntil(kSide, sim::Nanoseconds(100));
  Free(block);
  EXPECT_NE(InSegment(MiB(16)), block);
  device_.AdvanceTo(sim::Nanoseconds(100));
  EXPECT_EQ(InSegment(MiB(16)), block);
}

TEST_F(SegmentsBesideHandles, ThatAreKeptStayHoweverFree) {
  const Address block = InSegment(MiB(16));
  ASSERT_TRUE(allocator_->KeepInPlace(block, MiB(16), true).ok());
  Free(block);
  EXPECT_EQ(allocator_->Trim().value_or(Bytes(-1)), Bytes(0));
  EXPECT_TRUE(absl::IsResourceExhausted(allocator_->Allocate(MiB(60), kSide).status()));
  EXPECT_EQ(InSegment(MiB(16)), block);
  ASSERT_TRUE(allocator_->KeepInPlace(block, MiB(16), false).ok());
  Free(block);
  EXPECT_EQ(allocator_->Trim().value_or(Bytes(-1)), MiB(16));
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
  const auto all_of_it = [](Address, uint8_t) { return true; };
  ASSERT_TRUE(allocator_->sleep().FallAsleep(all_of_it).ok());
  EXPECT_EQ(allocator_->sleep().LetGo().value_or(Bytes(-1)), MiB(8));
  const std::vector<Sleep::StayedPart> stayed = allocator_->sleep().Stayed(all_of_it);
  ASSERT_EQ(stayed.size(), 1u);
  EXPECT_EQ(stayed[0].block.address, segment);
}

}  // namespace
}  // namespace frugal
