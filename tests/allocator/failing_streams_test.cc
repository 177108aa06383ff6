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

class FailingStreams : public testing::Test {
 protected:
  Address Allocate(Bytes size, Stream stream = kMain) {
    absl::StatusOr<Allocation> allocation = allocator_.Allocate(size, stream);
    EXPECT_TRUE(allocation.ok()) << allocation.status();
    allocator_.inspect().CheckInvariants();
    return allocation.ok() ? allocation->address : Address();
  }
  void Free(Address address) { EXPECT_TRUE(allocator_.Free(address).ok()); }

  sim::SimulatedDevice simulated_{{.memory = MiB(64)}};
  BadStreamDevice device_{simulated_};
  AddressDirectory directory_;
  DeviceAllocator allocator_{device_, directory_, nullptr};
};

TEST_F(FailingStreams, ADonorThatFailsIsPassedOver) {
  Free(Allocate(MiB(8), kBad));
  Free(Allocate(MiB(20), kSide));
  Allocate(MiB(40));
  EXPECT_EQ(simulated_.used(), MiB(48)) << "what the other stream left was used, and nothing of the bad one's";
}

TEST_F(FailingStreams, ItsMemoryComesBackOnceTheHostHasWaitedForAllWork) {
  const Address block = Allocate(MiB(48), kBad);
  simulated_.MakeBusyUntil(kBad, sim::Nanoseconds(100));
  Free(block);
  Allocate(MiB(60));
  EXPECT_EQ(simulated_.now().count(), 100);
}

TEST_F(FailingStreams, TrimGivesBackWhatTheOthersHaveAndWhatItHas) {
  Free(Allocate(MiB(8), kBad));
  Free(Allocate(MiB(20)));
  EXPECT_EQ(allocator_.Trim().value_or(Bytes(0)), MiB(28));
}

TEST_F(FailingStreams, BlocksThatItUsedAreNotAskedForInEachAllocation) {
  const Address block = Allocate(MiB(8));
  ASSERT_TRUE(allocator_.RecordStream(block, kBad).ok());
  Free(block);
  for (int i = 0; i < 5; ++i) Free(Allocate(MiB(1)));
  const int64_t records = device_.records_;
  for (int i = 0; i < 100; ++i) Free(Allocate(MiB(1)));
  EXPECT_EQ(device_.records_, records);
  EXPECT_EQ(Bytes(allocator_.GetStatistics().active_bytes()[SizeGroup::kAll].current), MiB(8)) << "it still waits";
  Allocate(MiB(60));
}

TEST_F(FailingStreams, IdleMemoryOfOthersIsGivenBack) {
  Free(Allocate(MiB(8), kBad));
  Free(Allocate(MiB(20)));
  device_.bad_ = false;
  ASSERT_TRUE(allocator_.MarkUse().ok());
  device_.bad_ = true;
  EXPECT_EQ(allocator_.ReturnIdle(kUnlimited).value_or(Bytes(0)), MiB(28));
}

}  // namespace
}  // namespace frugal
