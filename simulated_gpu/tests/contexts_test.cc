// Contexts of the simulated machine: primary and green ones, their default streams, and what waits for all of one.

#include <chrono>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/context.h"
#include "simulated_gpu/machine/thread_state.h"
#include "simulated_gpu/tests/simulated_machine.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

class ContextsTest : public SimulatedMachine {
 protected:
  ~ContextsTest() override {
    while (ThisThread().context != nullptr) ThisThread().PopContext();
    ThisThread().gpu = 0;
  }

  Stream& NullStream(Context& context) { return *streams_.Find(Streams::kDefaultHandle, context); }
  Stream& NewStream(Context& context, Stream::Kind kind = Stream::Kind::kNonBlocking) {
    return *streams_.Create(context, kind, 0);
  }

  Contexts& contexts_ = machine_.contexts();
  Context& primary_ = contexts_.primary(0);
  Context& green_ = *contexts_.CreateGreen(/*gpu=*/0, /*multiprocessors=*/8);
};

TEST_F(ContextsTest, NullStreamIsOrderedWithBlockingStreamsOfItsOwnContextOnly) {
  Launch(NullStream(green_), microseconds(5));
  EXPECT_EQ(streams_.Query(NewStream(green_, Stream::Kind::kBlocking)), Error::kNotReady);
  EXPECT_EQ(streams_.Query(NewStream(primary_, Stream::Kind::kBlocking)), Error::kSuccess);
}

TEST_F(ContextsTest, PrimaryContextWaitsForTheWorkOfItsGreenOnes) {
  Launch(NewStream(green_), microseconds(5));
  Launch(NewStream(contexts_.primary(1)), microseconds(50));
  ASSERT_EQ(streams_.of(primary_).Synchronize(), Error::kSuccess);
  EXPECT_EQ(now(), microseconds(5));
}

TEST_F(ContextsTest, GreenContextWaitsForItsOwnWorkOnly) {
  Launch(NewStream(green_), microseconds(5));
  Launch(NewStream(primary_), microseconds(50));
  ASSERT_EQ(streams_.of(green_).Synchronize(), Error::kSuccess);
  EXPECT_EQ(now(), microseconds(5));
}

TEST_F(ContextsTest, EventOfAContextPassesWithAllItsWork) {
  Launch(NewStream(green_), microseconds(5));
  Launch(NewStream(primary_), microseconds(9));
  Event* of_green = streams_.events().Create();
  Event* of_all = streams_.events().Create();
  ASSERT_EQ(streams_.of(green_).Record(of_green), Error::kSuccess);
  ASSERT_EQ(streams_.of(primary_).Record(of_all), Error::kSuccess);
  ASSERT_EQ(streams_.events().Synchronize(of_green), Error::kSuccess);
  EXPECT_EQ(now(), microseconds(5));
  ASSERT_EQ(streams_.events().Synchronize(of_all), Error::kSuccess);
  EXPECT_EQ(now(), microseconds(9));
}

TEST_F(ContextsTest, EventIsRecordedInContextsOfItsOwnGpuOnly) {
  Event* event = streams_.events().Create(/*gpu=*/1);
  EXPECT_EQ(streams_.of(green_).Record(event), Error::kInvalidHandle);
  EXPECT_EQ(streams_.of(contexts_.primary(1)).Record(event), Error::kSuccess);
}

TEST_F(ContextsTest, WholeContextWaitsAndSoDoStreamsThatItGetsLater) {
  Stream& producer = NewStream(primary_);
  Stream& waiting = NewStream(green_);
  Launch(producer, microseconds(5));
  ASSERT_EQ(streams_.of(green_).WaitFor(RecordOn(producer)), Error::kSuccess);
  EXPECT_EQ(streams_.Query(waiting), Error::kNotReady);
  EXPECT_EQ(streams_.Query(NewStream(green_)), Error::kNotReady);
  EXPECT_EQ(streams_.Query(NewStream(primary_)), Error::kSuccess);
}

TEST_F(ContextsTest, WorkOfADestroyedStreamCountsForItsContext) {
  Stream& stream = NewStream(green_);
  Launch(stream, microseconds(5));
  ASSERT_EQ(streams_.Destroy(&stream), Error::kSuccess);
  ASSERT_EQ(streams_.of(green_).Synchronize(), Error::kSuccess);
  EXPECT_EQ(now(), microseconds(5));
}

TEST_F(ContextsTest, ContextWithACaptureCanNeitherBeRecordedNorWait) {
  Stream& stream = NewStream(green_);
  Begin(stream, CaptureMode::kRelaxed);
  EXPECT_EQ(streams_.of(green_).Record(streams_.events().Create()), Error::kCaptureUnsupported);
  EXPECT_EQ(streams_.captures().InfoOf(stream).state, Capture::State::kInvalidated);
  EXPECT_EQ(streams_.of(primary_).WaitFor(streams_.events().Create()), Error::kCaptureUnsupported);
}

TEST_F(ContextsTest, GreenContextIsDestroyedOnceAndAPrimaryOneNever) {
  EXPECT_EQ(contexts_.DestroyGreen(green_), Error::kSuccess);
  EXPECT_EQ(contexts_.DestroyGreen(green_), Error::kInvalidContext);
  EXPECT_EQ(contexts_.DestroyGreen(primary_), Error::kInvalidContext);
  EXPECT_EQ(contexts_.Find(&green_), &green_);
  EXPECT_TRUE(green_.is_destroyed());
  EXPECT_EQ(contexts_.Find(this), nullptr);
}

TEST_F(ContextsTest, SettingNoContextPopsTheCurrentOne) {
  ThreadState& thread = ThisThread();
  thread.SetContext(&primary_);
  thread.PushContext(&green_);
  thread.SetContext(nullptr);
  EXPECT_EQ(thread.context, &primary_);
}

}  // namespace
}  // namespace frugal::sim
