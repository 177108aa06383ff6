// Streams that the program destroys: external ones, those of green contexts.

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

constexpr Stream kExternal{7, /*context=*/0, /*life=*/1};
// The stream that gets its handle when it is gone.
constexpr Stream kNext{7, /*context=*/0, /*life=*/2};

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
  EXPECT_EQ(Trim(), MiB(48));
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

TEST_F(EndedStreams, TheNextStreamWithItsHandleDoesNotGetItsMemoryWhileItsWorkGoesOn) {
  LeaveBehind(MiB(40), 100);
  Allocate(MiB(20), kNext);
  EXPECT_EQ(now(), 0) << "there was other memory";
  Allocate(MiB(40), kNext);
  EXPECT_EQ(now(), 100);
}

TEST_F(EndedStreams, NamingTheNextStreamWithItsHandleSaysNothingOfItsWork) {
  LeaveBehind(MiB(48), 100);
  // An era ends, so that streams that are named are marked from now on.
  MarkUse();
  for (int i = 0; i < 2; ++i) Free(Allocate(KiB(4), kNext));
  Allocate(MiB(40));
  EXPECT_EQ(now(), 100) << "its pages were used before its work was done";
}

TEST_F(EndedStreams, AnOwnerWaitsForEachOfTheStreamsThatHadOneHandle) {
  const Address first = Allocate(MiB(28));
  const Address second = Allocate(MiB(28));
  UseOn(first, kExternal, 1000);
  Free(first);
  device_.EndStream(kExternal);
  UseOn(second, kNext, 10);
  Free(second);
  // Does not fit but in what awaits.
  Allocate(MiB(28));
  EXPECT_EQ(now(), 0) << "the owner waits, the host does not";
  const absl::StatusOr<Event> reached = device_.Record(kMain);
  AdvanceTo(20);
  EXPECT_FALSE(*device_.HasPassed(*reached)) << "the first block is still in use";
  AdvanceTo(1000);
  EXPECT_TRUE(*device_.HasPassed(*reached));
}

TEST_F(EndedStreams, ABlockThatItUsedIsNotMarkedInTheNextStreamWithItsHandle) {
  const Address block = Allocate(MiB(60));
  UseOn(block, kExternal, 1000);
  device_.EndStream(kExternal);
  Free(Allocate(MiB(1), kNext));
  MakeBusyUntil(kNext, 10);
  Free(block);
  AdvanceTo(10);
  Allocate(MiB(60));
  EXPECT_EQ(now(), 1000);
  EXPECT_EQ(statistics().num_driver_failures, 0);
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
}

TEST_F(EndedStreams, AStreamForEachPieceOfWorkTakesNoMoreRangesThanAFew) {
  for (uint64_t life = 1; life <= 200; ++life) {
    const Stream stream{7, 0, static_cast<uint16_t>(life)};
    Free(Allocate(MiB(2), stream));
    device_.EndStream(stream);
  }
  EXPECT_LE(calls(CallKind::kReserve), 20u);
  EXPECT_LE(calls(CallKind::kSync), 15u) << "one wait serves many";
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
}

TEST_F(EndedStreams, ItsIdleMemoryGoesBackBehindAWaitThatIsShort) {
  LeaveBehind(MiB(20), 0);
  Free(Allocate(MiB(20)));
  MarkUse();
  EXPECT_EQ(ReturnIdle(), MiB(40));
  EXPECT_EQ(calls(CallKind::kSync), 1u);
  EXPECT_EQ(device_.uses_of_ended_streams(), 0);
}

TEST_F(EndedStreams, ItsIdleMemoryIsNotWaitedForWhileAnotherStreamIsBusy) {
  Allocate(MiB(2), kSide);
  LeaveBehind(MiB(20), 0);
  Free(Allocate(MiB(20)));
  MakeBusyUntil(kSide, 1'000'000);
  Bytes returned;
  for (int interval = 0; interval < 3; ++interval) {
    MarkUse();
    returned += ReturnIdle();
  }
  EXPECT_EQ(calls(CallKind::kSync), 0u);
  EXPECT_EQ(returned, MiB(20)) << "of the main stream, which is idle";
}

TEST_F(EndedStreams, DefaultStreamsOfTwoContextsAreTwoStreams) {
  const Stream primary{0};
  const Stream green{0, /*context=*/42, /*life=*/1};
  const Address block = Allocate(MiB(4), green);
  MakeBusyUntil(green, 100);
  Free(block);
  const Address other = Allocate(MiB(4), primary);
  EXPECT_NE(other, block) << "the green context's work is not ordered with the primary's";
}

}  // namespace
}  // namespace frugal
