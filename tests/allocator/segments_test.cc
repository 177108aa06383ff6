// A device without virtual memory gets the same policy on segments of cudaMalloc.

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

}  // namespace
}  // namespace frugal
