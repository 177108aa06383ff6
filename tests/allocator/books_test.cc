// After each operation of random work every figure of the books is what the snapshot, the program and the device say it
// is, by size group: nothing is counted twice, for the wrong group, or not at all.

#include <iostream>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/allocator/allocator_fixture.h"
#include "tests/allocator/plain_figure.h"
#include "tests/allocator/random_work.h"

namespace frugal {
namespace {

constexpr int kSteps = 1000;

// Handles of several pages, though the device is small.
PolicyOptions SizedHandles() {
  PolicyOptions options;
  options.request_part = 1;
  options.piece_part = 4;
  options.largest_piece = 8;
  options.waste_part = 8;
  return options;
}

SizeGroup GroupOf(bool small) { return small ? SizeGroup::kSmall : SizeGroup::kLarge; }

class CountedWork final : public RandomWork {
 public:
  using RandomWork::RandomWork;

  void CompareAll() {
    const Statistics statistics = allocator().GetStatistics();
    {
      SCOPED_TRACE("by the program");
      ExpectSame(statistics.allocation, blocks_);
      ExpectSame(statistics.allocated_bytes, bytes_);
      ExpectSame(statistics.requested_bytes, requested_);
    }
    const Seen seen = Look();
    for (const SizeGroup group : kGroups) {
      SCOPED_TRACE(testing::Message() << "size group " << static_cast<int>(group));
      const auto compare = [&](const char* what, const Counter& counted, int64_t is) {
        EXPECT_EQ(counted.current, is) << what;
        EXPECT_EQ(counted.allocated - counted.freed, counted.current) << what;
        EXPECT_GE(counted.peak, counted.current) << what;
      };
      const int64_t allocated = seen.allocated[group].current;
      const int64_t allocated_bytes = seen.allocated_bytes[group].current;
      compare("blocks", statistics.allocation[group], allocated);
      compare("bytes", statistics.allocated_bytes[group], allocated_bytes);
      compare("requested", statistics.requested_bytes[group], seen.requested[group].current);
      compare("segments", statistics.segment[group], seen.segments[group].current);
      // A handle that a failed call has left over is held, and seen nowhere.
      const Counter& reserved = statistics.reserved_bytes[group];
      compare("reserved", reserved, work().often.failures > 0 ? reserved.current : seen.reserved[group].current);
      EXPECT_GE(reserved.current, seen.reserved[group].current);
      compare("split", statistics.inactive_split[group], seen.split[group].current);
      compare("split bytes", statistics.inactive_split_bytes[group], seen.split_bytes[group].current);
      compare("active", statistics.active()[group], allocated + seen.awaiting[group].current);
      compare("active bytes", statistics.active_bytes()[group], allocated_bytes + seen.awaiting_bytes[group].current);
    }
    EXPECT_EQ(statistics.num_ooms, out_of_memory());
    EXPECT_EQ(allocator().inspect().Held(), device().used());
    EXPECT_EQ(statistics.reserved_bytes[SizeGroup::kAll].current, device().used().count());
    if (work().often.failures == 0) CompareWithTheDevice(statistics);
    allocator().inspect().CheckInvariants();
  }

 private:
  // The figures that a snapshot says.
  struct Seen {
    PlainFigure segments, reserved, split, split_bytes, awaiting, awaiting_bytes, allocated, allocated_bytes, requested;
  };

  void Allocated(const Live& block) override {
    const SizeGroup group = GroupOf(block.size <= kSmallLimit);
    blocks_.Increase(group, 1);
    bytes_.Increase(group, block.size.count());
    requested_.Increase(group, block.requested.count());
  }
  void Freed(const Live& block) override {
    const SizeGroup group = GroupOf(block.size <= kSmallLimit);
    blocks_.Decrease(group, 1);
    bytes_.Decrease(group, block.size.count());
    requested_.Decrease(group, block.requested.count());
  }

  Seen Look() {
    Seen seen;
    for (const SegmentView& segment : allocator().inspect().Snapshot()) {
      const SizeGroup group = GroupOf(segment.small);
      seen.segments.Increase(group, 1);
      seen.reserved.Increase(group, (segment.size - segment.emptied).count());
      for (const BlockView& block : segment.blocks) {
        // A free block of another size class may have served.
        const SizeGroup own = GroupOf(block.size <= kSmallLimit);
        if (block.state == BlockView::State::kAllocated) {
          seen.allocated.Increase(own, 1);
          seen.allocated_bytes.Increase(own, block.size.count());
          seen.requested.Increase(own, block.requested.count());
        } else if (block.state == BlockView::State::kAwaitingStreams) {
          seen.awaiting.Increase(own, 1);
          seen.awaiting_bytes.Increase(own, block.size.count());
        } else if (block.state == BlockView::State::kFree && segment.blocks.size() > 1) {
          seen.split.Increase(group, 1);
          seen.split_bytes.Increase(group, block.size.count());
        }
      }
    }
    return seen;
  }

  void CompareWithTheDevice(const Statistics& statistics) {
    EXPECT_EQ(statistics.num_driver_failures, 0);
    const auto calls = [this](sim::CallKind kind) { return static_cast<int64_t>(device().calls(kind)); };
    if (work().virtual_memory) {
      EXPECT_EQ(statistics.num_device_alloc, calls(sim::CallKind::kCreate));
      EXPECT_EQ(statistics.num_device_free, calls(sim::CallKind::kRelease));
    } else {
      EXPECT_EQ(statistics.num_device_free, calls(sim::CallKind::kFree));
      EXPECT_EQ(statistics.num_device_alloc - statistics.num_device_free, statistics.segment[SizeGroup::kAll].current);
    }
  }

  PlainFigure blocks_, bytes_, requested_;
};

// The parameters: the work, and whether handles are of several pages.
class Books : public testing::TestWithParam<std::tuple<Work, bool>> {};

TEST_P(Books, AgreeWithTheSnapshotTheProgramAndTheDevice) {
  const auto& [work, has_sized_handles] = GetParam();
  CountedWork counted(work, has_sized_handles ? SizedHandles() : PolicyOptions());
  for (int step = 0; step < kSteps && !HasFailure(); ++step) {
    SCOPED_TRACE(testing::Message() << "operation " << step);
    counted.Step(step);
    counted.CompareAll();
  }
  counted.GiveAllBack();
  counted.CompareAll();
  std::cout << "COUNTS books, " << work.name << ": " << kSteps << " operations, " << counted.faults()
            << " failed calls\n";
}

INSTANTIATE_TEST_SUITE_P(Works, Books, testing::Combine(testing::ValuesIn(AllWorks()), testing::Bool()),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name,
                                               std::get<1>(info.param) ? "_in_sized_handles" : "");
                         });

using BooksAfterAReset = AllocatorTest;

TEST_F(BooksAfterAReset, BeginTheirCountsAnew) {
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

}  // namespace
}  // namespace frugal
