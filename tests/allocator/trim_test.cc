// Idle memory goes back to the device: as much as is wanted, and nothing that a graph may still use.

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

}  // namespace
}  // namespace frugal
