// What several holders may have together.

#include "allocator/port/shared_limit.h"

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {
namespace {

TEST(SharedLimit, LeavesWhatNobodyHas) {
  SharedLimit limit;
  EXPECT_TRUE(limit.Take(MiB(1))) << "there is no limit yet";
  limit.Set(MiB(10));
  EXPECT_EQ(limit.left(), MiB(9));
  EXPECT_FALSE(limit.Take(MiB(10)));
  EXPECT_EQ(limit.TakeUpTo(MiB(20)), MiB(9));
  EXPECT_EQ(limit.TakeUpTo(MiB(20)), Bytes(0));
  limit.GiveBack(MiB(4));
  EXPECT_EQ(limit.TakeUpTo(MiB(6), /*least=*/MiB(5)), Bytes(0)) << "less than the least";
  EXPECT_EQ(limit.left(), MiB(4));
}

TEST(SharedLimit, LeavesNothingBelowWhatIsHeld) {
  SharedLimit limit;
  limit.TakeAnyway(MiB(8));
  limit.Set(MiB(2));
  EXPECT_EQ(limit.left(), Bytes(0));
  EXPECT_FALSE(limit.Take(Bytes(1)));
  EXPECT_EQ(limit.taken(), MiB(8));
}

TEST(Reservation, GivesBackWhatWasNotRedeemed) {
  SharedLimit limit;
  {
    ASSERT_TRUE(limit.Take(MiB(6)));
    Reservation first(limit, MiB(6));
    first.Redeem(MiB(2));
    Reservation second = std::move(first);
    EXPECT_EQ(first.promised(), Bytes(0));
    EXPECT_EQ(second.promised(), MiB(4));
    EXPECT_EQ(limit.taken(), MiB(6));
  }
  EXPECT_EQ(limit.taken(), MiB(2));
}

// Runs a function inside a call of the driver.
class AskingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  absl::StatusOr<PhysicalHandle> Create(Bytes size) override {
    if (during_create != nullptr) during_create();
    return ForwardingDevice::Create(size);
  }
  std::function<void()> during_create;
};

class LimitOfAnAllocator : public AllocatorBehind<AskingDevice> {
 protected:
  LimitOfAnAllocator() : AllocatorBehind(MiB(512)) {}

  SharedLimit& limit_ = allocator_->settings().limit();
};

TEST_F(LimitOfAnAllocator, CountsWhatWasPromisedWhileAMissIsInTheDriver) {
  limit_.Set(MiB(80));
  Bytes others;
  between_.during_create = [&] { others += limit_.TakeUpTo(MiB(60)); };
  EXPECT_TRUE(allocator_->Allocate(MiB(60), kMain).ok());
  EXPECT_EQ(others, MiB(20));
  EXPECT_EQ(Held() + others, MiB(80));
}

TEST_F(LimitOfAnAllocator, HasBackWhatARefusedRequestWasPromised) {
  limit_.Set(MiB(60));
  ASSERT_TRUE(device_.SetFaults("create@3+=invalid_value"));
  EXPECT_FALSE(allocator_->Allocate(MiB(20), kMain).ok());
  EXPECT_EQ(limit_.taken(), Held());
  ASSERT_TRUE(device_.SetFaults(""));
  Allocate(MiB(58));
  EXPECT_EQ(limit_.taken(), MiB(58));
}

// Two allocators share a GPU and a limit, as PyTorch's own and this one do.
TEST_F(LimitOfAnAllocator, IsNeverPassedByThreadsOfTwoHolders) {
  constexpr Bytes kLimit = MiB(128);
  limit_.Set(kLimit);
  std::atomic<int64_t> others{0};
  const auto look = [&] { EXPECT_LE(device_.used().count() + others.load(), kLimit.count()); };
  between_.during_create = look;
  std::thread other([&] {
    for (int i = 0; i < 3000; ++i) {
      const Bytes more = limit_.TakeUpTo(MiB(2 + i % 40));
      others += more.count();
      look();
      others -= more.count();
      limit_.GiveBack(more);
    }
  });
  std::vector<std::thread> ours;
  for (int thread = 0; thread < 2; ++thread) {
    ours.emplace_back([&, thread] {
      for (int i = 0; i < 150; ++i) {
        const absl::StatusOr<Allocation> block = allocator_->Allocate(MiB(1 + (i * 7 + thread) % 60), kMain);
        if (!block.ok()) continue;
        EXPECT_TRUE(allocator_->Free(block->address).ok());
        EXPECT_TRUE(allocator_->Trim(MiB(i % 3)).ok());
      }
    });
  }
  for (std::thread& thread : ours) thread.join();
  other.join();
  EXPECT_EQ(limit_.taken(), Held());
}

}  // namespace
}  // namespace frugal
