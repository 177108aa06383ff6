// No byte is handed on before the work that used it is over or ordered before the next use.

#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using StreamOrder = AllocatorTest;

TEST_F(StreamOrder, ItsOwnStreamNeedsNoEvent) {
  const Address block = Allocate(MiB(8));
  UseOn(block, kMain, 100);
  Free(block);
  EXPECT_EQ(Allocate(MiB(8)), block);
  EXPECT_EQ(calls(CallKind::kEventRecord), 0u);
}

// Streams are found by a hash of their numbers, which on a GPU are addresses.
class StreamOrderOfMany : public AllocatorTest {
 protected:
  StreamOrderOfMany() : AllocatorTest(GiB(1)) {}
};

TEST_F(StreamOrderOfMany, StreamsDoNotShareMemoryHoweverAlikeTheirNumbersAre) {
  for (const uint64_t distance : {uint64_t{1}, uint64_t{0x140}, uint64_t{1} << 32}) {
    for (uint64_t n = 1; n <= 150; ++n) {
      const Stream stream{n * distance};
      const Address block = Allocate(kGrain, stream);
      EXPECT_EQ(allocator_->inspect().StreamsOf(block), std::vector({stream})) << n << " * " << distance;
    }
  }
}

TEST_F(StreamOrder, RecordingAStreamTwiceMakesOneEvent) {
  const Address block = Allocate(MiB(8));
  UseOn(block, kSide, 100);
  UseOn(block, kSide, 200);
  Free(block);
  EXPECT_EQ(calls(CallKind::kEventRecord), 1u);
}

TEST_F(StreamOrder, AStreamsFreeBlockIsNotHandedToAnotherStreamThatCouldOvertakeIt) {
  const Address block = Allocate(MiB(8), kSide);
  MakeBusyUntil(kSide, 100);
  Free(block);
  device_.ResetCounters();
  Allocate(MiB(8), kMain);
  EXPECT_EQ(calls(CallKind::kCreate), 4u) << "there is room: new memory rather than a wait";
  EXPECT_EQ(calls(CallKind::kStreamWait), 0u);
}

TEST_F(StreamOrder, MemoryOfAStreamThatHasPassedMovesWithoutAWait) {
  const Address block = Allocate(MiB(8), kSide);
  Free(block);
  device_.ResetCounters();
  Allocate(MiB(8), kMain);
  EXPECT_EQ(calls(CallKind::kCreate), 0u);
  EXPECT_EQ(calls(CallKind::kMap), 4u);
  EXPECT_EQ(calls(CallKind::kStreamWait), 0u);
}

TEST_F(StreamOrder, OnAFullDeviceTheConsumerStreamWaitsAndTheHostDoesNot) {
  const Address block = Allocate(MiB(64), kSide);
  MakeBusyUntil(kSide, 100);
  Free(block);
  device_.ResetCounters();
  Allocate(MiB(64), kMain);
  EXPECT_EQ(calls(CallKind::kStreamWait), 1u);
  EXPECT_EQ(calls(CallKind::kSync), 0u);
  EXPECT_EQ(now(), 0);
}

TEST_F(StreamOrder, NothingIsRecordedOnACapturedStream) {
  const Address block = Allocate(MiB(8), kSide);
  Free(block);
  device_.BeginCapture(kSide);
  device_.ResetCounters();
  Allocate(MiB(8), kMain);
  EXPECT_EQ(calls(CallKind::kCreate), 4u) << "what belongs to a captured stream stays where it is";
  device_.EndCapture(kSide);
}

TEST_F(StreamOrder, ABlockUsedByACapturedStreamReturnsAfterTheCapture) {
  const Address block = Allocate(MiB(8));
  device_.BeginCapture(kSide);
  ASSERT_TRUE(allocator_->RecordStream(block, kSide).ok());
  Free(block);
  EXPECT_NE(Allocate(MiB(8)), block);
  device_.EndCapture(kSide);
  EXPECT_EQ(Allocate(MiB(8)), block);
}

TEST_F(StreamOrder, BlocksUsedByACapturedStreamWaitOnlyForWhatWasLaunchedBeforeTheyWereSeen) {
  const Address blocks[] = {Allocate(MiB(8)), Allocate(MiB(8))};
  device_.BeginCapture(kSide);
  for (Address block : blocks) ASSERT_TRUE(allocator_->RecordStream(block, kSide).ok());
  for (Address block : blocks) Free(block);
  device_.EndCapture(kSide);
  MakeBusyUntil(kSide, 100);
  device_.ResetCounters();
  Free(Allocate(MiB(2)));
  EXPECT_EQ(calls(CallKind::kEventRecord), 1u) << "one mark covers both";
  MakeBusyUntil(kSide, 200);
  AdvanceTo(100);
  EXPECT_EQ(Allocate(MiB(16)), blocks[0]);
  EXPECT_EQ(now(), 100);
}

}  // namespace
}  // namespace frugal
