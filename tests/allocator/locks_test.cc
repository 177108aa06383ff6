// No lock is held while others run, and debug builds watch the order in which locks are taken.

#include <thread>

#include "absl/synchronization/mutex.h"
#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

// Has another thread call everything, and waits for it: a lock that is held would be waited for for ever.
class AskingReclaimer final : public Reclaimer {
 public:
  bool ReleaseCaches() override { return AskAll(); }
  bool CollectGarbage() override { return AskAll(); }

  DeviceAllocator* allocator = nullptr;
  int asked = 0;

 private:
  bool AskAll() {
    std::thread other([this] {
      const absl::StatusOr<Allocation> block = allocator->Allocate(KiB(1), kSide);
      ASSERT_TRUE(block.ok()) << block.status();
      EXPECT_TRUE(allocator->RecordStream(block->address, kMain).ok());
      EXPECT_EQ(allocator->inspect().StreamsOf(block->address).size(), 2u);
      EXPECT_TRUE(allocator->inspect().FindBlock(block->address).has_value());
      EXPECT_TRUE(allocator->inspect().FindSegment(block->address).has_value());
      EXPECT_TRUE(allocator->Free(block->address).ok());
      EXPECT_FALSE(allocator->inspect().Snapshot().empty());
      EXPECT_TRUE(allocator->MarkUse().ok());
      EXPECT_TRUE(allocator->ReturnIdle(Bytes(0)).ok());
      allocator->births().EndEpoch();
      EXPECT_EQ(allocator->births().Report().epochs_ended, asked + 1);
      EXPECT_GT(allocator->GetStatistics().allocation[SizeGroup::kAll].allocated, 0);
      EXPECT_TRUE(allocator->inspect().Health().ok());
      allocator->inspect().CheckInvariants();
    });
    other.join();
    ++asked;
    return false;
  }
};

class Locks : public AllocatorTest {
 protected:
  Locks() : AllocatorTest(MiB(64), true, &reclaimer_) {
    reclaimer_.allocator = allocator_.get();
    reclaimer_.asked = 0;
  }

  static inline AskingReclaimer reclaimer_;
};

TEST_F(Locks, NoneIsHeldWhileOthersGiveMemoryBack) {
  EXPECT_TRUE(IsOutOfMemory(MiB(66)));
  EXPECT_EQ(reclaimer_.asked, 2) << "once for caches, once for garbage";
}

TEST(LockOrderDeathTest, ThatDiffersFromAnEarlierOneEndsADebugBuild) {
#if defined(NDEBUG) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "only debug builds watch the order of locks; ThreadSanitizer does so by itself";
#else
  absl::Mutex first;
  absl::Mutex second;
  const auto take_both = [](absl::Mutex& one, absl::Mutex& other) {
    absl::MutexLock lock(&one);
    absl::MutexLock inner(&other);
  };
  take_both(first, second);
  EXPECT_DEATH(take_both(second, first), "otential.*deadlock");
#endif
}

}  // namespace
}  // namespace frugal
