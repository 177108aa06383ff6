// What happens when a device is full: the ladder, its order, and what is known at its end.

#include <string>
#include <thread>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using OutOfMemory = AllocatorTest;

TEST_F(OutOfMemory, IsReportedWithWhatWasKnownAndLeavesTheAllocatorUsable) {
  const Address block = Allocate(MiB(48));
  EXPECT_TRUE(IsOutOfMemory(MiB(32)));
  const OutOfMemoryReport report = LastOutOfMemory();
  EXPECT_EQ(report.requested, MiB(32));
  EXPECT_EQ(report.allocated, MiB(48));
  EXPECT_EQ(report.reserved, MiB(48));
  EXPECT_EQ(report.device_free, MiB(16));
  EXPECT_EQ(report.device_total, MiB(64));
  EXPECT_EQ(statistics().num_ooms, 1);
  Free(block);
  Allocate(MiB(64));
}

TEST_F(OutOfMemory, AThreadIsToldOfItsOwnRequestAndNotOfAnothersThatFailedAfterIt) {
  EXPECT_TRUE(IsOutOfMemory(GiB(1)));
  std::thread([this] {
    EXPECT_TRUE(IsOutOfMemory(GiB(2)));
    EXPECT_EQ(LastOutOfMemory().requested, GiB(2));
  }).join();
  EXPECT_EQ(LastOutOfMemory().requested, GiB(1));
}

TEST_F(OutOfMemory, TheLimitCountsWhatOthersHold) {
  SharedLimit& limit = allocator_->settings().limit();
  limit.Set(MiB(32));
  ASSERT_TRUE(limit.Take(MiB(16)));
  EXPECT_TRUE(IsOutOfMemory(MiB(18)));
  EXPECT_EQ(LastOutOfMemory().limit, MiB(32));
  Allocate(MiB(16));
  limit.GiveBack(MiB(16));
  Allocate(MiB(16));
}

// While one request waits for caches, another thread's fails.
class BesideAnother : public Reclaimer {
 public:
  bool ReleaseCaches() override {
    if (is_asked_) return false;
    is_asked_ = true;
    std::thread([this] {
      EXPECT_TRUE(absl::IsResourceExhausted(allocator->Allocate(MiB(50), kSide).status()));
      EXPECT_EQ(LastOutOfMemory().remedies.stream_waits, Bytes(0));
      EXPECT_TRUE(LastOutOfMemory().driver_failure.ok()) << LastOutOfMemory().driver_failure;
    }).join();
    return false;
  }
  bool CollectGarbage() override { return false; }

  DeviceAllocator* allocator = nullptr;

 private:
  bool is_asked_ = false;
};

class OutOfMemoryOfTwo : public BesideAnother, public AllocatorTest {
 protected:
  OutOfMemoryOfTwo() : AllocatorTest(MiB(64), true, this) { allocator = allocator_.get(); }
};

TEST_F(OutOfMemoryOfTwo, HasTheRemediesAndTheFailuresOfEachForItself) {
  Allocate(MiB(32));
  const Address block = Allocate(MiB(30));
  UseOn(block, kSide, 100);
  Free(block);
  ASSERT_TRUE(device_.SetFaults("memory_info@1=invalid_value"));
  EXPECT_TRUE(IsOutOfMemory(MiB(40)));
  EXPECT_EQ(LastOutOfMemory().remedies.stream_waits, MiB(30));
  EXPECT_NE(std::string(LastOutOfMemory().driver_failure.message()), "");
}

}  // namespace
}  // namespace frugal
