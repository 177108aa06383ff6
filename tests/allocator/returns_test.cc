// Memory that goes back to the device: by a trim as much as is wanted, and nothing that a graph may still use; and what
// was idle between two moments, without a wait.

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using TrimTest = AllocatorTest;

class TrimOfSegments : public AllocatorTest {
 protected:
  TrimOfSegments() : AllocatorTest(MiB(64), /*virtual_memory=*/false) {}
};

TEST_F(TrimTest, ReturnsNoMoreThanIsEnough) {
  Free(Allocate(MiB(24)));
  EXPECT_EQ(Trim(MiB(5)), MiB(6));
  EXPECT_EQ(device_.used(), MiB(18));
}

TEST_F(TrimTest, LeavesTheRestOfARunUsableWithoutADriverCall) {
  Free(Allocate(MiB(24)));
  Trim(MiB(6));
  device_.ResetCounters();
  Allocate(MiB(18));
  EXPECT_EQ(calls(CallKind::kMap) + calls(CallKind::kCreate), 0u);
}

TEST_F(TrimTest, TakesFromTheNextStreamWhatOneDoesNotHave) {
  const Address first = Allocate(MiB(8), kMain);
  const Address second = Allocate(MiB(8), kSide);
  Free(first);
  Free(second);
  EXPECT_EQ(Trim(MiB(12)), MiB(12));
}

TEST_F(TrimTest, KeepsWhatACapturedStreamMayStillSee) {
  Free(Allocate(MiB(8), kSide));
  const Address lent = Allocate(MiB(64), kMain);
  Free(lent);
  device_.BeginCapture(kSide);
  EXPECT_EQ(Trim(), Bytes(0)) << "four of its pages were the captured stream's";
  device_.EndCapture(kSide);
  EXPECT_EQ(Trim(), MiB(64));
}

TEST_F(TrimOfSegments, ReturnsNoMoreSegmentsThanAreEnough) {
  const Address first = Allocate(MiB(12));
  const Address second = Allocate(MiB(14));
  Free(first);
  Free(second);
  EXPECT_EQ(Trim(MiB(10)), MiB(12));
}

TEST_F(TrimTest, LeavesTheOtherBlocksOfAStreamAloneOnceItHasEnough) {
  const Address first = Allocate(MiB(8));
  Allocate(MiB(2));
  const Address second = Allocate(MiB(6));
  Allocate(MiB(2));
  Free(first);
  Free(second);
  EXPECT_EQ(Trim(MiB(8)), MiB(8));
  EXPECT_EQ(calls(CallKind::kUnmap), 4u) << "its pages, one by one";
}

TEST_F(TrimTest, WaitsForNothingWhereWhatHasPassedIsEnough) {
  const Address first = Allocate(MiB(8), kMain);
  const Address second = Allocate(MiB(8), kSide);
  MakeBusyUntil(kSide, 100);
  Free(first);
  Free(second);
  AdvanceTo(100);
  EXPECT_EQ(Trim(MiB(8)), MiB(8));
  EXPECT_EQ(calls(CallKind::kSync), 0u);
}

using PassedTest = AllocatorTest;

TEST_F(PassedTest, GivesWhatIsWantedWithoutAWait) {
  Allocate(MiB(4));
  Free(Allocate(MiB(24)));
  EXPECT_EQ(ReturnPassed(MiB(5)), MiB(6));
  EXPECT_EQ(ReturnPassed(), MiB(18));
  EXPECT_TRUE(allocator_->HaveStreamsPassed());
  EXPECT_EQ(device_.used(), MiB(4)) << "what is in use stays";
  EXPECT_EQ(calls(CallKind::kSync), 0u);
}

TEST_F(PassedTest, GivesWhatABusyStreamHasPassedThoughItGoesOn) {
  const Address block = Allocate(MiB(24));
  MakeBusyUntil(kMain, 100);
  Free(block);
  EXPECT_EQ(ReturnPassed(), Bytes(0));
  EXPECT_FALSE(allocator_->HaveStreamsPassed());
  // It is told more all the while.
  AdvanceTo(90);
  MakeBusyUntil(kMain, 200);
  EXPECT_EQ(ReturnPassed(), Bytes(0));
  AdvanceTo(100);
  EXPECT_EQ(ReturnPassed(), MiB(24));
  EXPECT_EQ(now(), 100);
  EXPECT_EQ(calls(CallKind::kSync), 0u);
}

TEST_F(PassedTest, KeepsWhatOtherStreamsMayStillUse) {
  const Address block = Allocate(MiB(24));
  UseOn(block, kSide, 100);
  Free(block);
  EXPECT_EQ(ReturnPassed(), Bytes(0));
  AdvanceTo(100);
  EXPECT_EQ(ReturnPassed(), MiB(24));
}

class Idle : public AllocatorTest {
 protected:
  using AllocatorTest::AllocatorTest;

  // What an interval's end returns: all that was idle during it.
  Bytes EndInterval(Bytes enough = kUnlimited) {
    const Bytes returned = ReturnIdle(enough);
    MarkUse();
    if (device_.HasVirtualMemory()) {
      EXPECT_EQ(calls(CallKind::kSync), 0u);
    }
    return returned;
  }
};

class IdleSegments : public Idle {
 protected:
  IdleSegments() : Idle(MiB(64), /*virtual_memory=*/false) {}
};

TEST_F(Idle, MemoryGoesAtTheEndOfTheFirstWholeIntervalInWhichItWasIdle) {
  Allocate(MiB(4));
  const Address block = Allocate(MiB(20));
  EndInterval();
  Free(block);
  EXPECT_EQ(EndInterval(), Bytes(0)) << "it was in use when the interval began";
  EXPECT_EQ(EndInterval(), MiB(20));
  EXPECT_EQ(device_.used(), MiB(4));
  EXPECT_EQ(EndInterval(), Bytes(0));
}

TEST_F(Idle, OnlyThePartThatWasNotUsedGoes) {
  Free(Allocate(MiB(20)));
  EndInterval();
  Free(Allocate(MiB(20)));
  EndInterval();
  const Address part = Allocate(MiB(8));
  EXPECT_EQ(EndInterval(), MiB(12));
  Free(part);
  EXPECT_EQ(EndInterval(), Bytes(0));
  EXPECT_EQ(EndInterval(), MiB(8));
}

TEST_F(Idle, MemoryOfACapturedStreamStays) {
  Free(Allocate(MiB(20)));
  EndInterval();
  const Address block = Allocate(MiB(20));
  device_.BeginCapture(kMain);
  Free(block);
  EXPECT_EQ(EndInterval(), Bytes(0));
  EXPECT_EQ(EndInterval(), Bytes(0));
  device_.EndCapture(kMain);
  EXPECT_EQ(EndInterval(), Bytes(0));
  EXPECT_EQ(EndInterval(), MiB(20));
}

TEST_F(Idle, ReturnsNoMoreThanIsEnoughAndTheRestNextTime) {
  Free(Allocate(MiB(24)));
  EndInterval();
  EXPECT_EQ(ReturnIdle(MiB(5)), MiB(6));
  EXPECT_EQ(EndInterval(), MiB(18));
}

TEST_F(IdleSegments, WholeSegmentsGo) {
  Allocate(MiB(4));
  Free(Allocate(MiB(24)));
  EXPECT_EQ(EndInterval(), Bytes(0));
  EXPECT_EQ(EndInterval(), MiB(24));
  EXPECT_EQ(device_.used(), MiB(20)) << "the segment that is shared by small requests";
}

}  // namespace
}  // namespace frugal
