// The figures mean what torch.cuda.memory_stats says they mean, and observers hear of every change.

#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using Figures = AllocatorTest;

TEST_F(Figures, CountsBeginAnewWithAReset) {
  ASSERT_TRUE(device_.SetFaults("map@1=invalid_value"));
  Free(Allocate(MiB(2)));
  EXPECT_TRUE(IsOutOfMemory(MiB(64) + kPageSize));
  EXPECT_EQ(statistics().num_driver_failures, 1);
  EXPECT_EQ(statistics().num_ooms, 1);
  EXPECT_GT(statistics().num_device_alloc, 0);
  allocator_->ResetAccumulatedStatistics();
  const Statistics after = statistics();
  EXPECT_EQ(after.num_driver_failures, 0);
  EXPECT_EQ(after.num_ooms, 0);
  EXPECT_EQ(after.num_device_alloc, 0);
  EXPECT_EQ(after.reserved_bytes[SizeGroup::kAll].allocated, 0);
  EXPECT_EQ(after.reserved_bytes[SizeGroup::kAll].current, MiB(2).count()) << "what is held is no count";
}

TEST_F(Figures, TrimTakesDownOldViewsSoThatTheMemoryReallyGoes) {
  std::vector<Address> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(Allocate(MiB(2)));
  for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
  Free(Allocate(MiB(32)));
  ASSERT_TRUE(allocator_->Trim().ok());
  EXPECT_EQ(device_.used(), MiB(32));
}

class RecordingObserver : public Observer {
 public:
  void OnMemoryEvent(const MemoryEvent& event) override { events.push_back(event); }
  void DropAnnotation(void* annotation) override { dropped.push_back(annotation); }
  std::vector<MemoryEvent::Kind> Kinds() const {
    std::vector<MemoryEvent::Kind> kinds;
    for (const MemoryEvent& event : events) kinds.push_back(event.kind);
    return kinds;
  }
  std::vector<MemoryEvent> events;
  std::vector<void*> dropped;
};

TEST_F(Figures, TheObserverHearsOfEveryChangeInOrder) {
  using Kind = MemoryEvent::Kind;
  RecordingObserver observer;
  allocator_->settings().SetObserver(&observer);
  int note = 0;
  absl::StatusOr<Allocation> block = allocator_->Allocate(MiB(2) - Bytes(1), kMain, &note);
  ASSERT_TRUE(block.ok());
  UseOn(block->address, kSide, 100);
  Free(block->address);
  EXPECT_TRUE(observer.dropped.empty());
  AdvanceTo(100);
  ASSERT_TRUE(allocator_->Trim().ok());
  EXPECT_EQ(observer.Kinds(),
            (std::vector<Kind>{Kind::kMap, Kind::kAllocate, Kind::kFreeRequested, Kind::kFreeCompleted, Kind::kUnmap}));
  for (const MemoryEvent& event : observer.events) EXPECT_EQ(event.stream, kMain);
  EXPECT_EQ(observer.events[1].annotation, &note);
  EXPECT_EQ(observer.events[1].size, MiB(2));
  EXPECT_EQ(observer.events[1].requested, MiB(2) - Bytes(1));
  EXPECT_EQ(observer.dropped, std::vector<void*>{&note});
  allocator_->settings().SetObserver(nullptr);
}

}  // namespace
}  // namespace frugal
