// The figures mean what torch.cuda.memory_stats says they mean, and observers hear of every change.

#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using Figures = AllocatorTest;

TEST_F(Figures, CountBlocksAndBytesByTheSizeOfTheRequest) {
  Allocate(Bytes(1000));
  Allocate(MiB(3));
  const Statistics now = statistics();
  EXPECT_EQ(now.allocation[SizeGroup::kSmall].current, 1);
  EXPECT_EQ(now.allocation[SizeGroup::kLarge].current, 1);
  EXPECT_EQ(now.allocated_bytes[SizeGroup::kSmall].current, 1024);
  EXPECT_EQ(now.allocated_bytes[SizeGroup::kLarge].current, MiB(3).count());
  EXPECT_EQ(now.requested_bytes[SizeGroup::kSmall].current, 1000);
  EXPECT_EQ(now.reserved_bytes[SizeGroup::kAll].current, MiB(6).count());
  EXPECT_EQ(now.reserved_bytes[SizeGroup::kSmall].current, MiB(2).count());
  EXPECT_EQ(now.num_device_alloc, 3);
}

TEST_F(Figures, ABlockAwaitingAStreamIsActiveButNotAllocated) {
  const Address block = Allocate(MiB(4));
  UseOn(block, kSide, 100);
  Free(block);
  EXPECT_EQ(all(statistics().allocated_bytes), 0);
  EXPECT_EQ(all(statistics().active_bytes()), MiB(4).count());
  AdvanceTo(100);
  Allocate(Bytes(1));
  EXPECT_EQ(statistics().active_bytes()[SizeGroup::kLarge].current, 0);
}

TEST_F(Figures, InactiveSplitIsWhatLiesFreeBesideBlocksInUse) {
  const Address first = Allocate(MiB(2));
  Allocate(MiB(3));
  EXPECT_EQ(all(statistics().inactive_split_bytes), MiB(1).count()) << "the rest of the last page";
  Free(first);
  EXPECT_EQ(all(statistics().inactive_split_bytes), MiB(3).count());
  EXPECT_EQ(all(statistics().inactive_split), 2);
}

TEST_F(Figures, AWholeFreeSegmentIsNotSplit) {
  Free(Allocate(MiB(4)));
  EXPECT_EQ(all(statistics().inactive_split_bytes), 0);
  EXPECT_EQ(all(statistics().segment), 1);
}

TEST_F(Figures, PeaksStayUntilTheyAreReset) {
  Free(Allocate(MiB(8)));
  Allocate(MiB(2));
  EXPECT_EQ(statistics().allocated_bytes[SizeGroup::kAll].peak, MiB(8).count());
  allocator_->ResetPeakStatistics();
  EXPECT_EQ(statistics().allocated_bytes[SizeGroup::kAll].peak, MiB(2).count());
  allocator_->ResetAccumulatedStatistics();
  EXPECT_EQ(statistics().allocated_bytes[SizeGroup::kAll].allocated, 0);
  EXPECT_EQ(all(statistics().allocated_bytes), MiB(2).count());
}

TEST_F(Figures, HandlesThatMoveChangeTheirGroupAndNotTheTotal) {
  allocator_->settings().limit().Set(kPageSize);
  Free(Allocate(MiB(2)));
  Allocate(Bytes(512));
  const Statistics now = statistics();
  EXPECT_EQ(now.reserved_bytes[SizeGroup::kAll].current, kPageSize.count());
  EXPECT_EQ(now.reserved_bytes[SizeGroup::kSmall].current, kPageSize.count());
  EXPECT_EQ(now.reserved_bytes[SizeGroup::kLarge].current, 0);
}

TEST_F(Figures, TheSnapshotAddsUpToWhatIsReserved) {
  Allocate(Bytes(1000));
  const Address freed = Allocate(MiB(3));
  Allocate(MiB(5));
  Free(freed);
  Bytes segments;
  Bytes blocks;
  for (const SegmentView& segment : allocator_->inspect().Snapshot()) {
    segments += segment.size;
    for (const BlockView& block : segment.blocks) blocks += block.size;
  }
  EXPECT_EQ(segments.count(), all(statistics().reserved_bytes));
  EXPECT_EQ(blocks, segments);
}

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

TEST_F(Figures, TrimGivesBackAllThatIsFreeAndWhole) {
  const Address first = Allocate(MiB(8));
  Allocate(MiB(3));
  const Address awaiting = Allocate(MiB(4));
  UseOn(awaiting, kSide, 100);
  Free(first);
  Free(awaiting);
  absl::StatusOr<Bytes> returned = allocator_->Trim();
  ASSERT_TRUE(returned.ok()) << returned.status();
  EXPECT_EQ(*returned, MiB(12)) << "the last page of the 3 MiB block went free with its neighbour";
  EXPECT_EQ(device_.used().count(), all(statistics().reserved_bytes));
  EXPECT_EQ(device_.used(), MiB(4));
  allocator_->inspect().CheckInvariants();
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
