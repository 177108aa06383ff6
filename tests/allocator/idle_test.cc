// Memory that was idle between two moments goes back to the device, without a wait; what was used stays.

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

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
