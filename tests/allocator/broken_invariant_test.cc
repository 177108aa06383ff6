// An invariant that does not hold ends the use of the allocator, not the program.

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allocator/port/check.h"
#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {
namespace {

// A driver that hands out the first range twice, so that blocks would share their addresses; and whose events end a
// free that needs one, in one way or another.
class RepeatingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  void Repeat() { repeats_ = true; }
  void Break() { breaks_ = true; }

  absl::StatusOr<Address> Reserve(Bytes size) override {
    if (repeats_) return first_;
    absl::StatusOr<Address> range = ForwardingDevice::Reserve(size);
    if (first_ == Address() && range.ok()) first_ = *range;
    return range;
  }
  absl::StatusOr<Event> Record(Stream stream) override {
    FRUGAL_CHECK(!breaks_);
    return ForwardingDevice::Record(stream);
  }

 private:
  Address first_;
  bool repeats_ = false;
  bool breaks_ = false;
};

// What the allocator leaves behind once it is broken stays, here as in a program.
struct Broken {
  explicit Broken(Reclaimer* reclaimer) : allocator(repeating, directory, reclaimer) {}

  // The free of what is held breaks the allocator.
  void BreakFree() {
    EXPECT_TRUE(allocator.RecordStream(held, kSide).ok());
    repeating.Break();
  }
  int64_t allocated() const { return allocator.GetStatistics().allocated_bytes[SizeGroup::kAll].current; }

  sim::SimulatedDevice device{{.memory = MiB(64)}};
  RepeatingDevice repeating{device};
  AddressDirectory directory;
  DeviceAllocator allocator;
  Address held;
};

// One that is to break: 8 MiB are held, 4 MiB lie free.
Broken& MakeOne(Reclaimer* reclaimer = nullptr) {
  ThrowFromFailedChecks();
  static auto& all = *new std::vector<std::unique_ptr<Broken>>;
  all.push_back(std::make_unique<Broken>(reclaimer));
  Broken& broken = *all.back();
  broken.held = broken.allocator.Allocate(MiB(8), kMain)->address;
  EXPECT_TRUE(broken.allocator.Free(broken.allocator.Allocate(MiB(4), kMain)->address).ok());
  return broken;
}

Broken& BreakOne() {
  Broken& broken = MakeOne();
  broken.repeating.Repeat();
  EXPECT_TRUE(absl::IsDataLoss(broken.allocator.Allocate(MiB(8), kSide).status()));
  return broken;
}

TEST(BrokenInvariant, IsNamedToWhoeverAllocatesFromThenOn) {
  Broken& broken = BreakOne();
  const absl::Status status = broken.allocator.Allocate(KiB(1), kMain).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_NE(status.message().find("address_directory.cc"), absl::string_view::npos) << status;
  EXPECT_EQ(broken.allocator.inspect().Health(), status);
}

TEST(BrokenInvariant, LeavesWhatWasHandedOutMappedAndCounted) {
  Broken& broken = BreakOne();
  const Bytes used = broken.device.used();
  EXPECT_EQ(broken.allocator.Free(broken.held).value_or(Bytes(-1)), Bytes(0)) << "a deleter has nobody to tell";
  EXPECT_TRUE(broken.allocator.RecordStream(broken.held, kSide).ok());
  EXPECT_EQ(broken.allocated(), MiB(8).count());
  EXPECT_FALSE(broken.allocator.Trim().ok());
  EXPECT_FALSE(broken.allocator.ReturnIdle(kUnlimited).ok());
  EXPECT_FALSE(broken.allocator.ReturnPassed(kUnlimited).ok());
  EXPECT_TRUE(broken.allocator.HaveStreamsPassed()) << "there is nothing to wait for";
  EXPECT_EQ(broken.device.used(), used) << "nothing goes back to the device, whoever may still use it";
  EXPECT_EQ(broken.directory.Find(broken.held), &broken.allocator);
}

TEST(BrokenInvariant, MakesTheBooksUnreadable) {
  Broken& broken = BreakOne();
  EXPECT_TRUE(broken.allocator.inspect().Snapshot().empty());
  EXPECT_FALSE(broken.allocator.inspect().FindBlock(broken.held).has_value());
  EXPECT_FALSE(broken.allocator.inspect().FindSegment(broken.held).has_value());
  EXPECT_TRUE(broken.allocator.inspect().StreamsOf(broken.held).empty());
}

TEST(BrokenInvariant, KeepsWhatLiesFree) {
  Broken& broken = BreakOne();
  EXPECT_TRUE(absl::IsDataLoss(broken.allocator.Allocate(MiB(4), kMain).status()));
  EXPECT_EQ(broken.allocated(), MiB(8).count());
}

TEST(BrokenInvariant, LeavesTheBooksAlone) {
  Broken& broken = BreakOne();
  const uint64_t records = broken.device.calls(sim::CallKind::kEventRecord);
  const Address unknown = broken.held + Bytes(512);
  EXPECT_TRUE(broken.allocator.Free(unknown).ok()) << "nobody looks for it";
  EXPECT_TRUE(broken.allocator.RecordStream(unknown, kSide).ok());
  EXPECT_TRUE(absl::IsDataLoss(broken.allocator.MarkUse()));
  EXPECT_EQ(broken.device.calls(sim::CallKind::kEventRecord), records);
  broken.allocator.births().Start();
  EXPECT_TRUE(broken.allocator.births().Usages().empty());
}

// In a process of its own: what an allocator that is broken leaves behind is lost.
TEST(BrokenInvariantDeathTest, GivesNothingBackWhenTheAllocatorEnds) {
  const auto end = [] {
    Broken& broken = BreakOne();
    const Bytes used = broken.device.used();
    broken.allocator.~DeviceAllocator();
    const bool stays = broken.device.used() == used && broken.directory.Find(broken.held) != nullptr;
    std::_Exit(stays ? 0 : 1);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "");
}

TEST(BrokenInvariant, FoundInAFreeEndsTheUseOfTheAllocatorToo) {
  Broken& broken = MakeOne();
  broken.BreakFree();
  EXPECT_EQ(broken.allocator.Free(broken.held).value_or(Bytes(-1)), Bytes(0)) << "a deleter has nobody to tell";
  EXPECT_TRUE(absl::IsDataLoss(broken.allocator.inspect().Health()));
  EXPECT_TRUE(absl::IsDataLoss(broken.allocator.Allocate(MiB(4), kMain).status()));
}

// Throws where an observer must not: with the locks held, in the midst of a change.
class UnfitObserver : public Observer {
 public:
  void OnMemoryEvent(const MemoryEvent& /*event*/) override {}
  void DropAnnotation(void* /*annotation*/) override {}
  const void* Origin() const override { throw std::runtime_error("of the observer's own"); }
};

// A free that an exception cuts short leaves a block that nobody has and that is not free.
TEST(BrokenInvariant, IsFoundByTheNextCallOfFullChecksAlone) {
  for (const CheckLevel level : {CheckLevel::kOff, CheckLevel::kFast, CheckLevel::kFull}) {
    Broken& broken = MakeOne();
    broken.allocator.settings().SetCheckLevel(level);
    UnfitObserver observer;
    broken.allocator.settings().SetObserver(&observer);
    EXPECT_THROW((void)broken.allocator.Free(broken.held), std::runtime_error);
    broken.allocator.settings().SetObserver(nullptr);
    const absl::Status status = broken.allocator.Allocate(MiB(4), kMain).status();
    EXPECT_EQ(absl::IsDataLoss(status), level == CheckLevel::kFull) << status;
  }
}

// The allocator breaks while its lock is not held, in a call that others make.
class BreakingReclaimer : public Reclaimer {
 public:
  bool ReleaseCaches() override {
    asked += "caches ";
    broken->BreakFree();
    EXPECT_TRUE(broken->allocator.Free(broken->held).ok());
    return true;
  }
  bool CollectGarbage() override {
    asked += "garbage ";
    return false;
  }
  Broken* broken = nullptr;
  std::string asked;
};

TEST(BrokenInvariant, IsNoticedByARequestThatWaitedForOthersToGiveMemory) {
  static auto& reclaimer = *new BreakingReclaimer;
  Broken& broken = MakeOne(&reclaimer);
  reclaimer.broken = &broken;
  EXPECT_TRUE(absl::IsDataLoss(broken.allocator.Allocate(MiB(60), kSide).status()));
  EXPECT_EQ(reclaimer.asked, "caches ");
}

TEST(BrokenInvariant, OfABlocksNeighboursIsFoundWhenTheBlockIsTouched) {
  BlockFactory blocks;
  Block* first = blocks.Make(nullptr, Address(4096), KiB(1), BlockState::kFree);
  Block* second = blocks.Make(nullptr, first->end(), KiB(1), BlockState::kAllocated);
  first->next = second;
  second->previous = first;
  EXPECT_TRUE(first->FitsItsNeighbours());
  EXPECT_TRUE(second->FitsItsNeighbours());
  first->size = KiB(2);
  EXPECT_FALSE(first->FitsItsNeighbours());
  EXPECT_FALSE(second->FitsItsNeighbours());
}

}  // namespace
}  // namespace frugal
