// Threads share one allocator; meant to run under ThreadSanitizer as well.

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using Threads = AllocatorTest;

TEST_F(Threads, OnStreamsOfTheirOwnLoseNothing) {
  std::vector<std::thread> threads;
  for (uint64_t id = 1; id <= 4; ++id) {
    threads.emplace_back([this, id] {
      std::mt19937_64 random(id);
      std::vector<Address> live;
      for (int step = 0; step < 2000; ++step) {
        const Bytes size(static_cast<int64_t>(random() % 3'000'000) + 1);
        absl::StatusOr<Allocation> block = allocator_->Allocate(size, Stream{id});
        if (block.ok()) live.push_back(block->address);
        if (live.size() > 3 || !block.ok()) {
          EXPECT_TRUE(live.empty() || allocator_->Free(live.back()).ok());
          if (!live.empty()) live.pop_back();
        }
      }
      for (Address block : live) EXPECT_TRUE(allocator_->Free(block).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  allocator_->inspect().CheckInvariants();
  EXPECT_EQ(all(statistics().allocated_bytes), 0);
}

TEST_F(Threads, AskingDoesNotDisturbThoseWhoAllocate) {
  std::atomic<bool> stop{false};
  std::thread asking([&] {
    while (!stop) {
      Bytes segments;
      for (const SegmentView& segment : allocator_->inspect().Snapshot()) segments += segment.size;
      EXPECT_LE(segments, MiB(64));
      EXPECT_LE(all(statistics().allocated_bytes), MiB(64).count());
    }
  });
  for (int step = 0; step < 2000; ++step) {
    absl::StatusOr<Allocation> block = allocator_->Allocate(KiB(step + 1), kMain);
    ASSERT_TRUE(block.ok());
    ASSERT_TRUE(allocator_->Free(block->address).ok());
  }
  stop = true;
  asking.join();
}

}  // namespace
}  // namespace frugal
