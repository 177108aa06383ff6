// After each operation of random work every figure of the books is what the snapshot, the program and the device say it
// is, by size group: nothing is counted twice, for the wrong group, or not at all.

#include <cstdio>
#include <vector>

#include "tests/allocator/allocator_fixture.h"
#include "tests/allocator/plain_figure.h"
#include "tests/environment.h"
#include "tests/shadow/random_operations.h"
#include "tests/shadow/shadow_run.h"

namespace frugal {
namespace {

using shadow::Mix;
using shadow::Operation;
using shadow::OperationKind;

constexpr uint64_t kPrograms = 150 / kSlowdown;
constexpr int kOperations = 250;

SizeGroup GroupOf(bool small) { return small ? SizeGroup::kSmall : SizeGroup::kLarge; }

// A random program, and the account that a listener keeps of what it is handed.
class CountedProgram final : public Observer {
 public:
  CountedProgram(uint64_t seed, Mix mix)
      : choices_(seed), operations_(choices_, mix), run_(operations_.program(), shadow::CheckLevel::kOff) {
    run_.allocator().settings().SetObserver(this);
  }

  void Step() {
    const Operation operation = operations_.Next(run_.live());
    // What others hold is not the allocator's, and what they do meanwhile has no place in the account.
    if (operation.kind == OperationKind::kCache || operation.kind == OperationKind::kMeanwhile) return;
    run_.Step(operation);
    ran_.operations.push_back(operation);
    if (operation.kind != OperationKind::kResetPeaks) return;
    for (PlainFigure* figure : {&blocks_, &bytes_, &requested_}) figure->ResetPeak();
  }

  void CompareAll() {
    const Statistics statistics = allocator().GetStatistics();
    {
      SCOPED_TRACE("by the program");
      ExpectSame(statistics.allocation, blocks_);
      ExpectSame(statistics.allocated_bytes, bytes_);
      ExpectSame(statistics.requested_bytes, requested_);
    }
    const bool has_failed = run_.tally().faults > 0;
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
      compare("reserved", reserved, has_failed ? reserved.current : seen.reserved[group].current);
      EXPECT_GE(reserved.current, seen.reserved[group].current);
      compare("split", statistics.inactive_split[group], seen.split[group].current);
      compare("split bytes", statistics.inactive_split_bytes[group], seen.split_bytes[group].current);
      compare("active", statistics.active()[group], allocated + seen.awaiting[group].current);
      compare("active bytes", statistics.active_bytes()[group], allocated_bytes + seen.awaiting_bytes[group].current);
    }
    EXPECT_EQ(statistics.num_ooms, run_.tally().out_of_memory);
    EXPECT_EQ(allocator().inspect().Held(), run_.device().used());
    EXPECT_EQ(statistics.reserved_bytes[SizeGroup::kAll].current, run_.device().used().count());
    if (!has_failed) CompareWithTheDevice(statistics);
    allocator().inspect().CheckInvariants();
  }

  // Gives everything back.
  void Finish() {
    allocator().settings().SetObserver(nullptr);
    run_.Finish();
    EXPECT_EQ(run_.failure(), "");
  }
  std::string ToText() {
    ran_.pages = operations_.program().pages;
    ran_.movable = operations_.program().movable;
    return shadow::ToText(ran_);
  }
  shadow::Tally tally() const { return run_.tally(); }
  DeviceAllocator& allocator() { return run_.allocator(); }

 private:
  // The figures that a snapshot says.
  struct Seen {
    PlainFigure segments, reserved, split, split_bytes, awaiting, awaiting_bytes, allocated, allocated_bytes, requested;
  };

  void OnMemoryEvent(const MemoryEvent& event) override {
    const SizeGroup group = GroupOf(event.size <= kSmallLimit);
    if (event.kind == MemoryEvent::Kind::kAllocate) {
      blocks_.Increase(group, 1);
      bytes_.Increase(group, event.size.count());
      requested_.Increase(group, event.requested.count());
    } else if (event.kind == MemoryEvent::Kind::kFreeRequested) {
      blocks_.Decrease(group, 1);
      bytes_.Decrease(group, event.size.count());
      requested_.Decrease(group, event.requested.count());
    }
  }
  void DropAnnotation(void* /*annotation*/) override {}

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
    const auto calls = [this](sim::CallKind kind) { return static_cast<int64_t>(run_.device().calls(kind)); };
    EXPECT_EQ(statistics.num_device_free, calls(sim::CallKind::kRelease) + calls(sim::CallKind::kFree));
    if (calls(sim::CallKind::kMalloc) == 0) {
      EXPECT_EQ(statistics.num_device_alloc, calls(sim::CallKind::kCreate));
    } else if (calls(sim::CallKind::kCreate) == 0) {
      EXPECT_EQ(statistics.num_device_alloc - statistics.num_device_free, statistics.segment[SizeGroup::kAll].current);
    }
  }

  shadow::Choices choices_;
  shadow::RandomOperations operations_;
  shadow::ShadowRun run_;
  shadow::Program ran_;
  PlainFigure blocks_, bytes_, requested_;
};

class Books : public testing::TestWithParam<Mix> {};

TEST_P(Books, AgreeWithTheSnapshotTheProgramAndTheDevice) {
  const uint64_t first = TestSeed() * 1'000;
  shadow::Tally sum;
  int64_t asleep = 0;
  for (uint64_t seed = first; seed < first + kPrograms && !HasFailure(); ++seed) {
    CountedProgram program(seed, GetParam());
    for (int step = 0; step < kOperations && !HasFailure(); ++step) {
      program.Step();
      program.CompareAll();
      asleep += std::ssize(program.allocator().sleep().Asleep());
    }
    program.Finish();
    sum += program.tally();
    EXPECT_FALSE(HasFailure()) << "seed " << seed << ":\n" << program.ToText();
  }
  std::printf("COUNTS books, seeds %d to %d: %d operations, %d failed calls, %d out of memory, %d stitches\n",
              static_cast<int>(first), static_cast<int>(first + kPrograms - 1), static_cast<int>(sum.operations),
              static_cast<int>(sum.faults), static_cast<int>(sum.out_of_memory), static_cast<int>(sum.stitches));
  EXPECT_GT(sum.faults, 0);
  EXPECT_GT(sum.out_of_memory, 0);
  EXPECT_GT(sum.large.created, 0) << "handles of several pages";
  EXPECT_GT(asleep, 0);
}

INSTANTIATE_TEST_SUITE_P(Tight, Books, testing::Values(Mix::kTight));
INSTANTIATE_TEST_SUITE_P(InPools, Books, testing::Values(Mix::kPools));
INSTANTIATE_TEST_SUITE_P(Roomy, Books, testing::Values(Mix::kRoomy));

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
