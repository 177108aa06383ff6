// Streams that the program destroys: external ones, those of green contexts.

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

constexpr Stream kExternal{7, /*context=*/0, /*may_end=*/true};

class EndedStreams : public AllocatorTest {
 protected:
  EndedStreams() : AllocatorTest(MiB(64)) {}

  // Memory of a stream that has work until `time` and is gone.
  void LeaveBehind(Bytes size, int64_t time) {
    const Address block = Allocate(size, kExternal);
    MakeBusyUntil(kExternal, time);
    Free(block);
    device_.EndStream(kExternal);
  }
};

TEST_F(EndedStreams, AStreamThatMayEndIsNotTouchedWhenItsMemoryIsFreed) {
  const Address block = Allocate(MiB(4), kExternal);
  device_.EndStream(kExternal);
  Free(block);
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
}

TEST_F(EndedStreams, MissesOfOthersDoNotTouchIt) {
  LeaveBehind(MiB(32), 100);
  Allocate(MiB(20));
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
  EXPECT_EQ(now(), 0) << "there was room, so nobody waited";
}

TEST_F(EndedStreams, ItsMemoryServesOthersOnceTheHostHasWaitedForAllWork) {
  LeaveBehind(MiB(48), 100);
  Allocate(MiB(40));
  EXPECT_EQ(now(), 100);
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
  EXPECT_EQ(statistics().num_driver_failures, 0);
}

TEST_F(EndedStreams, ItsMemoryGoesBackToTheDevice) {
  LeaveBehind(MiB(48), 100);
  EXPECT_EQ(allocator_->Trim().value_or(Bytes(0)), MiB(48));
  EXPECT_EQ(now(), 100) << "not before the work on it was done";
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
}

TEST_F(EndedStreams, ItsMemoryServesOthersWithoutAWaitIfItWasNamedAgainSince) {
  const Address block = Allocate(MiB(48), kExternal);
  MakeBusyUntil(kExternal, 100);
  Free(block);
  Address small = Allocate(MiB(2), kSide);
  Free(small);
  // Somebody asks for the memory, in vain; then the program comes back to the stream, and goes for good.
  EXPECT_FALSE(IsOutOfMemory(MiB(14), kSide));
  Free(Allocate(MiB(2), kExternal));
  device_.EndStream(kExternal);
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
}

TEST_F(EndedStreams, AStreamWithItsHandleIsAnother) {
  LeaveBehind(MiB(8), 100);
  const Stream again{kExternal.id, /*context=*/42, /*may_end=*/false};
  const Address block = Allocate(MiB(8), again);
  Free(block);
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
}

TEST_F(EndedStreams, ABlockThatItUsedWaitsForTheMarkOfItsFree) {
  const Address block = Allocate(MiB(60));
  UseOn(block, kExternal, 100);
  Free(block);
  device_.EndStream(kExternal);
  AdvanceTo(100);
  Free(Allocate(MiB(60)));
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
}

TEST_F(EndedStreams, AUseThatCouldNotBeMarkedWaitsForTheHost) {
  const Address block = Allocate(MiB(60));
  UseOn(block, kExternal, 100);
  ASSERT_TRUE(device_.SetFaults("event_record@1=invalid_handle"));
  Free(block);
  device_.EndStream(kExternal);
  for (int i = 0; i < 3; ++i) Free(Allocate(MiB(1)));
  EXPECT_EQ(now(), 0);
  Free(Allocate(MiB(60)));
  EXPECT_EQ(now(), 100);
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
}

TEST_F(EndedStreams, AStreamThatTurnsOutToLastServesOthersWithoutAWaitOfTheHost) {
  const Stream lasting{kExternal.id};
  Free(Allocate(MiB(24), kExternal));
  Free(Allocate(MiB(48), lasting));
  Allocate(MiB(40));
  EXPECT_EQ(calls(CallKind::kSync), 0u);
}

TEST_F(EndedStreams, DefaultStreamsOfTwoContextsAreTwoStreams) {
  const Stream primary{0};
  const Stream green{0, /*context=*/42, /*may_end=*/true};
  const Address block = Allocate(MiB(4), green);
  MakeBusyUntil(green, 100);
  Free(block);
  const Address other = Allocate(MiB(4), primary);
  EXPECT_NE(other, block) << "the green context's work is not ordered with the primary's";
}

}  // namespace
}  // namespace frugal
