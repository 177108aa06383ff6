// What is unmapped, and when: a view goes only when all streams that are known have passed.

#include "allocator/blocks/stream_clocks.h"
#include "tests/allocator/allocator_fixture.h"
#include "tests/allocator/held_locks.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {
namespace {

// Fails to unmap one page, wherever it is.
class StuckPageDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::Status Unmap(Address start, Bytes size) override {
    if (start <= stuck_ && stuck_ < start + size) return absl::InternalError("CUDA_ERROR_UNKNOWN");
    unmapped_ += size;
    return ForwardingDevice::Unmap(start, size);
  }

  Address stuck_;
  Bytes unmapped_;
};

class UnmapOrder : public AllocatorTest {
 protected:
  UnmapOrder() : AllocatorTest(MiB(64)) {}
  uint64_t unmaps() const { return calls(CallKind::kUnmap); }

  Ledger ledger_;
};

TEST_F(UnmapOrder, TrimWaitsForAStreamThatWasNeverToldToUseTheMemory) {
  Free(Allocate(MiB(2), kSide));
  const Address block = Allocate(MiB(20));
  MakeBusyUntil(kSide, 100);
  Free(block);
  EXPECT_GE(allocator_->Trim().value_or(Bytes(0)), MiB(20));
  EXPECT_EQ(now(), 100);
}

TEST_F(UnmapOrder, IdleMemoryStaysWhileAnyStreamHasWorkFromBeforeTheMark) {
  Free(Allocate(MiB(2), kSide));
  const Address block = Allocate(MiB(20));
  MakeBusyUntil(kSide, 100);
  Free(block);
  ASSERT_TRUE(allocator_->MarkUse().ok());
  EXPECT_EQ(allocator_->ReturnIdle(kUnlimited).value_or(Bytes(-1)), Bytes(0));
  EXPECT_EQ(unmaps(), 0u);
  AdvanceTo(100);
  EXPECT_EQ(allocator_->ReturnIdle(kUnlimited).value_or(Bytes(-1)), MiB(20));
}

TEST_F(UnmapOrder, AMissLeavesOldViewsMappedWhileAnotherStreamIsBusy) {
  Free(Allocate(MiB(2), kSide));
  MakeBusyUntil(kSide, 1'000);
  LeaveOldViews(40);
  EXPECT_EQ(unmaps(), 0u);
  EXPECT_GT(statistics().num_stitches, 0);
  EXPECT_EQ(now(), 0);
}

TEST_F(UnmapOrder, OneEventForEachKnownStreamServesAllViewsLeftBehindTogether) {
  HeldLocks locks;
  StreamClocks clocks(device_, ledger_, nullptr, locks.lock());
  clocks.Name(kMain);
  clocks.Name(kSide);
  const StreamClocks::Era era = clocks.era();
  EXPECT_TRUE(clocks.HasPassed(era));
  EXPECT_EQ(calls(CallKind::kEventRecord), 2u);
  EXPECT_TRUE(clocks.HasPassed(era));
  EXPECT_EQ(calls(CallKind::kEventRecord), 2u);
  EXPECT_EQ(clocks.era(), era + 1);
}

TEST_F(UnmapOrder, AnEraPassesWhenItsLastStreamDoes) {
  HeldLocks locks;
  StreamClocks clocks(device_, ledger_, nullptr, locks.lock());
  clocks.Name(kMain);
  clocks.Name(kSide);
  MakeBusyUntil(kMain, 100);
  MakeBusyUntil(kSide, 200);
  const StreamClocks::Era era = clocks.End();
  AdvanceTo(100);
  EXPECT_FALSE(clocks.HasPassed(era));
  AdvanceTo(200);
  EXPECT_TRUE(clocks.HasPassed(era));
}

TEST_F(UnmapOrder, AStreamThatIsCapturedHoldsUpNoEra) {
  HeldLocks locks;
  StreamClocks clocks(device_, ledger_, nullptr, locks.lock());
  clocks.Name(kMain);
  clocks.Name(kSide);
  device_.BeginCapture(kSide);
  EXPECT_TRUE(clocks.HasPassed(clocks.era()));
  EXPECT_FALSE(clocks.WaitForAll().ok()) << "that would end the capture";
  device_.EndCapture(kSide);
  EXPECT_TRUE(clocks.WaitForAll().ok());
}

TEST_F(UnmapOrder, NobodyWaitsForTheDeviceWhileSomebodyElseCaptures) {
  class Capturing final : public Reclaimer {
    bool ReleaseCaches() override { return false; }
    bool CollectGarbage() override { return false; }
    void WithoutCapture(absl::FunctionRef<void()>) const override {}
  } capturing;
  HeldLocks locks;
  StreamClocks clocks(device_, ledger_, &capturing, locks.lock());
  clocks.Name(kMain);
  const uint64_t waits = calls(CallKind::kSync);
  EXPECT_FALSE(clocks.WaitForAll().ok());
  EXPECT_EQ(calls(CallKind::kSync), waits + 1) << "for the stream's event alone";
  EXPECT_TRUE(clocks.HasPassed(clocks.era() - 1));
}

TEST_F(UnmapOrder, NobodyWaitsForTheDeviceWhileTheDriverDoesNotSayWhetherAStreamIsCaptured) {
  class SilentDevice final : public ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    absl::StatusOr<Event> Record(Stream stream) override {
      if (stream == kSide) return absl::UnknownError("the driver does not say");
      return ForwardingDevice::Record(stream);
    }
    absl::Status SynchronizeAll() override {
      ADD_FAILURE() << "that would end a capture";
      return absl::OkStatus();
    }
  } silent(device_);
  HeldLocks locks;
  StreamClocks clocks(silent, ledger_, nullptr, locks.lock());
  clocks.Name(kMain);
  clocks.Name(kSide);
  EXPECT_TRUE(absl::IsUnknown(clocks.WaitForAll()));
  EXPECT_EQ(ledger_.statistics().num_driver_failures, 1);
}

class StuckPage : public testing::Test {
 protected:
  sim::SimulatedDevice simulated_{{.memory = MiB(64)}};
  StuckPageDevice device_{simulated_};
  AddressDirectory directory_;
  DeviceAllocator allocator_{device_, directory_, nullptr};
};

TEST_F(StuckPage, AnUnmapThatFailsHalfWayLeavesBooksThatAreRight) {
  const absl::StatusOr<Allocation> block = allocator_.Allocate(MiB(20), kMain);
  ASSERT_TRUE(block.ok());
  device_.stuck_ = block->address + MiB(8);
  ASSERT_TRUE(allocator_.Free(block->address).ok());
  EXPECT_FALSE(allocator_.Trim().ok());
  allocator_.inspect().CheckInvariants();
  EXPECT_TRUE(allocator_.inspect().Health().ok());
  EXPECT_EQ(allocator_.inspect().Held(), MiB(20) - device_.unmapped_);
  EXPECT_EQ(device_.unmapped_, MiB(8)) << "what comes before the page that is stuck";
  device_.stuck_ = Address();
  EXPECT_EQ(allocator_.Trim().value_or(Bytes(0)), MiB(12));
  EXPECT_EQ(simulated_.used(), Bytes(0));
}

}  // namespace
}  // namespace frugal
