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
  uint64_t unmaps() const { return calls(CallKind::kUnmap); }
};

// The clocks of two streams that are known.
class Eras : public AllocatorTest {
 protected:
  Eras() {
    clocks_.Name(kMain);
    clocks_.Name(kSide);
  }

  Ledger ledger_;
  HeldLocks locks_;
  StreamClocks clocks_{device_, ledger_, nullptr, locks_.lock()};
};

TEST_F(UnmapOrder, TrimWaitsForAStreamThatWasNeverToldToUseTheMemory) {
  Free(Allocate(MiB(2), kSide));
  const Address block = Allocate(MiB(20));
  MakeBusyUntil(kSide, 100);
  Free(block);
  EXPECT_GE(Trim(), MiB(20));
  EXPECT_EQ(now(), 100);
}

TEST_F(UnmapOrder, IdleMemoryStaysWhileAnyStreamHasWorkFromBeforeTheMark) {
  Free(Allocate(MiB(2), kSide));
  const Address block = Allocate(MiB(20));
  MakeBusyUntil(kSide, 100);
  Free(block);
  MarkUse();
  EXPECT_EQ(ReturnIdle(), Bytes(0));
  EXPECT_EQ(unmaps(), 0u);
  AdvanceTo(100);
  EXPECT_EQ(ReturnIdle(), MiB(20));
}

TEST_F(UnmapOrder, AMissLeavesOldViewsMappedWhileAnotherStreamIsBusy) {
  Free(Allocate(MiB(2), kSide));
  MakeBusyUntil(kSide, 1'000);
  LeaveOldViews(40);
  EXPECT_EQ(unmaps(), 0u);
  EXPECT_GT(statistics().num_stitches, 0);
  EXPECT_EQ(now(), 0);
}

TEST_F(Eras, OneEventForEachKnownStreamServesAllViewsLeftBehindTogether) {
  const StreamClocks::Era era = clocks_.era();
  EXPECT_TRUE(clocks_.HasPassed(era));
  EXPECT_EQ(calls(CallKind::kEventRecord), 2u);
  EXPECT_TRUE(clocks_.HasPassed(era));
  EXPECT_EQ(calls(CallKind::kEventRecord), 2u);
  EXPECT_EQ(clocks_.era(), era + 1);
}

TEST_F(Eras, AnEraPassesWhenItsLastStreamDoes) {
  MakeBusyUntil(kMain, 100);
  MakeBusyUntil(kSide, 200);
  const StreamClocks::Era era = clocks_.End();
  AdvanceTo(100);
  EXPECT_FALSE(clocks_.HasPassed(era));
  AdvanceTo(200);
  EXPECT_TRUE(clocks_.HasPassed(era));
}

TEST_F(Eras, AStreamThatIsCapturedHoldsUpNoEra) {
  device_.BeginCapture(kSide);
  EXPECT_TRUE(clocks_.HasPassed(clocks_.era()));
  EXPECT_FALSE(clocks_.WaitForAll().ok()) << "that would end the capture";
  device_.EndCapture(kSide);
  EXPECT_TRUE(clocks_.WaitForAll().ok());
}

TEST_F(Eras, NobodyWaitsForTheDeviceWhileSomebodyElseCaptures) {
  class Capturing final : public Reclaimer {
    bool ReleaseCaches() override { return false; }
    bool CollectGarbage() override { return false; }
    void WithoutCapture(absl::FunctionRef<void()>) const override {}
  } capturing;
  StreamClocks clocks(device_, ledger_, &capturing, locks_.lock());
  clocks.Name(kMain);
  const uint64_t waits = calls(CallKind::kSync);
  EXPECT_FALSE(clocks.WaitForAll().ok());
  EXPECT_EQ(calls(CallKind::kSync), waits + 1) << "for the stream's event alone";
  EXPECT_TRUE(clocks.HasPassed(clocks.era() - 1));
}

TEST_F(Eras, NobodyWaitsForTheDeviceWhileTheDriverDoesNotSayWhetherAStreamIsCaptured) {
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
  StreamClocks clocks(silent, ledger_, nullptr, locks_.lock());
  clocks.Name(kMain);
  clocks.Name(kSide);
  EXPECT_TRUE(absl::IsUnknown(clocks.WaitForAll()));
  EXPECT_EQ(ledger_.statistics().num_driver_failures, 1);
}

using StuckPage = AllocatorBehind<StuckPageDevice>;

TEST_F(StuckPage, AnUnmapThatFailsHalfWayLeavesBooksThatAreRight) {
  const Address block = Allocate(MiB(20));
  between_.stuck_ = block + MiB(8);
  Free(block);
  EXPECT_FALSE(allocator_->Trim().ok());
  allocator_->inspect().CheckInvariants();
  EXPECT_TRUE(allocator_->inspect().Health().ok());
  EXPECT_EQ(allocator_->inspect().Held(), MiB(20) - between_.unmapped_);
  EXPECT_EQ(between_.unmapped_, MiB(8)) << "what comes before the page that is stuck";
  between_.stuck_ = Address();
  EXPECT_EQ(Trim(), MiB(12));
  EXPECT_EQ(device_.used(), Bytes(0));
}

}  // namespace
}  // namespace frugal
