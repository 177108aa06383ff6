// One stream whose events fail for good: the memory of all others goes on being used.

#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {
namespace {

constexpr Stream kBad{9};

// Every event of kBad fails.
class BadStreamDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::StatusOr<Event> Record(Stream stream) override {
    ++records_;
    return stream == kBad && bad_ ? absl::InternalError("CUDA_ERROR_INVALID_HANDLE") : ForwardingDevice::Record(stream);
  }

  bool bad_ = true;
  int64_t records_ = 0;
};

using FailingStreams = AllocatorBehind<BadStreamDevice>;

TEST_F(FailingStreams, ADonorThatFailsIsPassedOver) {
  Free(Allocate(MiB(8), kBad));
  Free(Allocate(MiB(20), kSide));
  Allocate(MiB(40));
  EXPECT_EQ(device_.used(), MiB(48)) << "what the other stream left was used, and nothing of the bad one's";
}

TEST_F(FailingStreams, ItsMemoryComesBackOnceTheHostHasWaitedForAllWork) {
  const Address block = Allocate(MiB(48), kBad);
  MakeBusyUntil(kBad, 100);
  Free(block);
  Allocate(MiB(60));
  EXPECT_EQ(now(), 100);
}

TEST_F(FailingStreams, TrimGivesBackWhatTheOthersHaveAndWhatItHas) {
  Free(Allocate(MiB(8), kBad));
  Free(Allocate(MiB(20)));
  EXPECT_EQ(Trim(), MiB(28));
}

TEST_F(FailingStreams, BlocksThatItUsedAreNotAskedForInEachAllocation) {
  const Address block = Allocate(MiB(8));
  ASSERT_TRUE(allocator_->RecordStream(block, kBad).ok());
  Free(block);
  for (int i = 0; i < 5; ++i) Free(Allocate(MiB(1)));
  const int64_t records = between_.records_;
  for (int i = 0; i < 100; ++i) Free(Allocate(MiB(1)));
  EXPECT_EQ(between_.records_, records);
  EXPECT_EQ(all(statistics().active_bytes()), MiB(8).count()) << "it still waits";
  Allocate(MiB(60));
}

TEST_F(FailingStreams, IdleMemoryOfOthersIsGivenBack) {
  Free(Allocate(MiB(8), kBad));
  Free(Allocate(MiB(20)));
  between_.bad_ = false;
  MarkUse();
  between_.bad_ = true;
  EXPECT_EQ(ReturnIdle(), MiB(28));
}

}  // namespace
}  // namespace frugal
