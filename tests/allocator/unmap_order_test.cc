// What is unmapped, and when: a view goes only when all streams that are known have passed.

#include "tests/allocator/allocator_fixture.h"
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

using StuckPage = AllocatorBehind<StuckPageDevice>;

TEST_F(StuckPage, AnUnmapThatFailsHalfWayLeavesBooksThatAreRight) {
  const Address block = Allocate(MiB(20));
  between_.stuck_ = block + MiB(8);
  Free(block);
  EXPECT_FALSE(allocator_->Trim().ok());
  allocator_->inspect().CheckInvariants();
  EXPECT_TRUE(allocator_->inspect().Health().ok());
  EXPECT_EQ(Held(), MiB(20) - between_.unmapped_);
  EXPECT_EQ(between_.unmapped_, MiB(8)) << "what comes before the page that is stuck";
  between_.stuck_ = Address();
  EXPECT_EQ(Trim(), MiB(12));
  EXPECT_EQ(device_.used(), Bytes(0));
}

}  // namespace
}  // namespace frugal
