#include "simulated_gpu/machine/streams.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "simulated_gpu/tests/simulated_machine.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

using StreamsTest = SimulatedMachine;

TEST_F(StreamsTest, BeingKeptBusyNeverShortensWhatAStreamHas) {
  Stream& stream = NewStream();
  streams_.SetBusyUntil(stream, microseconds(9));
  streams_.SetBusyUntil(stream, microseconds(4));
  machine_.clock().Set(microseconds(8));
  EXPECT_EQ(streams_.Query(stream), Error::kNotReady);
  machine_.clock().Set(microseconds(9));
  EXPECT_EQ(streams_.Query(stream), Error::kSuccess);
}

TEST_F(StreamsTest, WorkOfOneStreamAddsUp) {
  Stream& stream = NewStream();
  Launch(stream, microseconds(3));
  Launch(stream, microseconds(4));
  EXPECT_EQ(streams_.Query(stream), Error::kNotReady);
  machine_.clock().Set(microseconds(7));
  EXPECT_EQ(streams_.Query(stream), Error::kSuccess);
}

TEST_F(StreamsTest, WorkOfAnIdleStreamBeginsNow) {
  Stream& stream = NewStream();
  machine_.clock().Set(microseconds(100));
  Launch(stream, microseconds(3));
  ASSERT_EQ(streams_.Synchronize(stream), Error::kSuccess);
  EXPECT_EQ(now(), microseconds(103));
}

TEST_F(StreamsTest, StreamsRunSideBySide) {
  Launch(NewStream(), microseconds(3));
  Launch(NewStream(), microseconds(4));
  ASSERT_EQ(streams_.of(0).Synchronize(), Error::kSuccess);
  EXPECT_EQ(now(), microseconds(4));
}

TEST_F(StreamsTest, SynchronizingOneGpuDoesNotWaitForAnother) {
  Launch(NewStream(Stream::Kind::kNonBlocking, 1), microseconds(4));
  ASSERT_EQ(streams_.of(0).Synchronize(), Error::kSuccess);
  EXPECT_EQ(now(), microseconds(0));
  EXPECT_TRUE(streams_.of(1).IsBusy());
  EXPECT_FALSE(streams_.of(0).IsBusy());
}

TEST_F(StreamsTest, EventThatWasNeverRecordedHasPassed) {
  Event* event = streams_.events().Create();
  EXPECT_EQ(streams_.events().Query(event), Error::kSuccess);
  EXPECT_EQ(streams_.events().Synchronize(event), Error::kSuccess);
}

TEST_F(StreamsTest, ElapsedTimeIsThatBetweenThePoints) {
  Stream& stream = NewStream();
  Event* from = RecordOn(stream);
  Launch(stream, microseconds(10));
  Event* to = RecordOn(stream);
  Nanoseconds elapsed{0};
  EXPECT_EQ(streams_.events().Elapsed(from, to, &elapsed), Error::kNotReady);
  ASSERT_EQ(streams_.events().Synchronize(to), Error::kSuccess);
  ASSERT_EQ(streams_.events().Elapsed(from, to, &elapsed), Error::kSuccess);
  EXPECT_EQ(elapsed, microseconds(10));
  EXPECT_EQ(streams_.events().Elapsed(from, streams_.events().Create(), &elapsed), Error::kInvalidHandle);
}

TEST_F(StreamsTest, LegacyStreamIsOrderedWithBlockingStreamsOnly) {
  Stream& legacy = *streams_.Find(Streams::kLegacyHandle, 0);
  Stream& blocking = NewStream(Stream::Kind::kBlocking);
  Launch(legacy, microseconds(5));
  EXPECT_EQ(streams_.Query(blocking), Error::kNotReady);
  EXPECT_EQ(streams_.Query(NewStream(Stream::Kind::kNonBlocking)), Error::kSuccess);
  Launch(blocking, microseconds(1));
  ASSERT_EQ(streams_.Synchronize(legacy), Error::kSuccess);
  EXPECT_EQ(now(), microseconds(6));
}

TEST_F(StreamsTest, DefaultHandlesMeanTheGpusOwnStreams) {
  EXPECT_EQ(streams_.Find(Streams::kDefaultHandle, 0), streams_.Find(Streams::kLegacyHandle, 0));
  EXPECT_NE(streams_.Find(Streams::kDefaultHandle, 0), streams_.Find(Streams::kDefaultHandle, 1));
  EXPECT_NE(streams_.Find(Streams::kPerThreadHandle, 0), streams_.Find(Streams::kDefaultHandle, 0));
  EXPECT_EQ(streams_.Find(12345, 0), nullptr);
}

TEST_F(StreamsTest, WorkOfADestroyedStreamGoesOn) {
  Stream& stream = NewStream();
  Launch(stream, microseconds(5));
  ASSERT_EQ(streams_.Destroy(&stream), Error::kSuccess);
  EXPECT_TRUE(streams_.of(0).IsBusy());
  EXPECT_EQ(streams_.Destroy(&stream), Error::kInvalidHandle);
}

TEST_F(StreamsTest, NewStreamTakesTheHandleOfTheOneThatWentLast) {
  Stream* first = &NewStream();
  Stream* second = &NewStream();
  ASSERT_EQ(streams_.Destroy(first), Error::kSuccess);
  ASSERT_EQ(streams_.Destroy(second), Error::kSuccess);
  EXPECT_EQ(&NewStream(), second);
  EXPECT_EQ(&NewStream(Stream::Kind::kBlocking, 1), first);
  EXPECT_EQ(first->gpu, 1);
}

TEST_F(StreamsTest, HandleThatMeansNothingSaysWhatItWas) {
  Stream* stream = &NewStream(Stream::Kind::kNonBlocking, 1);
  const auto handle = reinterpret_cast<uint64_t>(stream);
  const std::string name = "stream " + std::to_string(stream->id) + " of GPU 1, destroyed";
  ASSERT_EQ(streams_.Destroy(stream), Error::kSuccess);
  EXPECT_EQ(streams_.Find(handle, 0), nullptr);
  EXPECT_EQ(streams_.WhatWas(handle), name);
  EXPECT_EQ(streams_.WhatWas(12345), "never a stream");
  NewStream();
  EXPECT_EQ(streams_.WhatWas(handle), "never a stream") << "it means another stream now";
}

TEST_F(StreamsTest, DestroyedEventIsKnownForWhatItWasWhileManyOthersGo) {
  Event* event = streams_.events().Create(/*gpu=*/1);
  ASSERT_EQ(streams_.events().Destroy(event), Error::kSuccess);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(streams_.events().Destroy(streams_.events().Create()), Error::kSuccess);
  EXPECT_FALSE(streams_.events().Knows(event));
  EXPECT_EQ(streams_.events().WhatWas(event), "event 1 of GPU 1, destroyed");
  EXPECT_EQ(streams_.events().WhatWas(nullptr), "never an event");
}

TEST_F(StreamsTest, EventIsRecordedOnStreamsOfItsOwnGpuOnly) {
  Stream& first = NewStream(Stream::Kind::kNonBlocking, 0);
  Stream& second = NewStream(Stream::Kind::kNonBlocking, 1);
  Event* event = streams_.events().Create(/*gpu=*/1);
  EXPECT_EQ(streams_.events().Record(event, first), Error::kInvalidHandle);
  EXPECT_EQ(streams_.events().Record(event, second), Error::kSuccess);
}

TEST_F(StreamsTest, StreamWaitsForAnEventOfAnotherGpu) {
  Stream& first = NewStream(Stream::Kind::kNonBlocking, 0);
  Stream& second = NewStream(Stream::Kind::kNonBlocking, 1);
  Launch(first, microseconds(5));
  ASSERT_EQ(streams_.events().StreamWait(second, RecordOn(first)), Error::kSuccess);
  EXPECT_EQ(streams_.Query(second), Error::kNotReady);
}

TEST_F(StreamsTest, EachThreadAndGpuHasAPerThreadStreamOfItsOwn) {
  Stream* mine = streams_.Find(Streams::kPerThreadHandle, 0);
  EXPECT_EQ(streams_.Find(Streams::kPerThreadHandle, 0), mine);
  EXPECT_NE(streams_.Find(Streams::kPerThreadHandle, 1), mine);
  EXPECT_EQ(mine->kind, Stream::Kind::kBlocking) << "it is ordered with the legacy stream";
  std::vector<Stream*> others;
  // One after the other, so that the system may give the second thread the first one's number.
  for (int i = 0; i < 2; ++i) {
    std::thread([&] { others.push_back(streams_.Find(Streams::kPerThreadHandle, 0)); }).join();
  }
  EXPECT_NE(others[0], mine);
  EXPECT_NE(others[1], mine);
  EXPECT_NE(others[1], others[0]);
}

TEST_F(StreamsTest, WorkTouchesMemoryInTheOrderOfItsEnqueueing) {
  Stream& stream = NewStream();
  std::vector<int> done;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(streams_.Enqueue(stream, {WorkKind::kHost, microseconds(1), [&done, i] { done.push_back(i); }}),
              Error::kSuccess);
  }
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
}

TEST(ClockTest, ManualTimeNeverGoesBack) {
  Clock clock;
  clock.Set(microseconds(10));
  clock.Set(microseconds(5));
  EXPECT_EQ(clock.Now(), microseconds(10));
  clock.WaitUntil(microseconds(20));
  EXPECT_EQ(clock.Now(), microseconds(20));
  clock.WaitUntil(microseconds(15));
  EXPECT_EQ(clock.Now(), microseconds(20));
}

}  // namespace
}  // namespace frugal::sim
