#include "simulated_gpu/machine/capture.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/thread_state.h"
#include "simulated_gpu/tests/simulated_machine.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

class CaptureTest : public SimulatedMachine {
 protected:
  ~CaptureTest() override { ThisThread().capture_mode = CaptureMode::kGlobal; }

  Error End(Stream& stream) { return streams_.captures().End(stream, &graph_); }
  Capture::State StateOf(const Stream& stream) { return streams_.captures().InfoOf(stream).state; }

  Stream& stream_ = NewStream();
  std::shared_ptr<Graph> graph_;
};

TEST_F(CaptureTest, CapturedWorkIsNeitherDoneNorTakesTime) {
  int runs = 0;
  Begin(stream_);
  ASSERT_EQ(streams_.Enqueue(stream_, {WorkKind::kFill, microseconds(5), [&runs] { ++runs; }}), Error::kSuccess);
  EXPECT_EQ(runs, 0);
  ASSERT_EQ(End(stream_), Error::kSuccess);
  EXPECT_EQ(streams_.Query(stream_), Error::kSuccess);
  ASSERT_EQ(graph_->nodes().size(), 1u);
  graph_->Run();
  graph_->Run();
  EXPECT_EQ(runs, 2);
}

TEST_F(CaptureTest, GraphTakesAsLongAsItsLongestPath) {
  Stream& side = NewStream();
  Begin(stream_);
  Launch(stream_, microseconds(1));
  Wait(side, stream_);
  Launch(side, microseconds(10));
  Launch(stream_, microseconds(2));
  Wait(stream_, side);
  Launch(stream_, microseconds(3));
  ASSERT_EQ(End(stream_), Error::kSuccess);
  EXPECT_EQ(graph_->nodes().size(), 4u);
  EXPECT_EQ(graph_->Duration(), microseconds(14));
  EXPECT_EQ(graph_->nodes().back()->after.size(), 2u);
  EXPECT_EQ(graph_->NodesAfter(graph_->nodes().front()).size(), 2u);
}

TEST_F(CaptureTest, StreamThatIsNotJoinedFailsTheCapture) {
  Stream& side = NewStream();
  Begin(stream_);
  Wait(side, stream_);
  EXPECT_EQ(StateOf(side), Capture::State::kActive);
  Launch(side, microseconds(1));
  EXPECT_EQ(End(stream_), Error::kCaptureUnjoined);
  EXPECT_EQ(graph_, nullptr);
  EXPECT_EQ(StateOf(side), Capture::State::kEnded);
}

TEST_F(CaptureTest, QueryingACapturedStreamInvalidatesItsCapture) {
  Begin(stream_);
  EXPECT_EQ(streams_.Query(stream_), Error::kCaptureUnsupported);
  EXPECT_EQ(StateOf(stream_), Capture::State::kInvalidated);
  EXPECT_EQ(streams_.Enqueue(stream_, {}), Error::kCaptureInvalidated);
  EXPECT_EQ(End(stream_), Error::kCaptureInvalidated);
  EXPECT_EQ(StateOf(stream_), Capture::State::kEnded);
  Begin(stream_);
  EXPECT_EQ(End(stream_), Error::kSuccess);
}

TEST_F(CaptureTest, SynchronizingACapturedStreamInvalidatesItsCapture) {
  Begin(stream_, CaptureMode::kRelaxed);
  EXPECT_EQ(streams_.Synchronize(stream_), Error::kCaptureUnsupported);
  EXPECT_EQ(End(stream_), Error::kCaptureInvalidated);
}

TEST_F(CaptureTest, CapturedEventCannotBeQueriedUntilTheCaptureEnds) {
  Begin(stream_, CaptureMode::kRelaxed);
  Event* event = RecordOn(stream_);
  EXPECT_EQ(streams_.events().Query(event), Error::kCapturedEvent);
  EXPECT_EQ(End(stream_), Error::kCaptureInvalidated);
  EXPECT_EQ(streams_.events().Query(event), Error::kSuccess);
}

TEST_F(CaptureTest, WaitingForUncapturedWorkInvalidatesTheCapture) {
  Event* outside = RecordOn(NewStream());
  Begin(stream_);
  EXPECT_EQ(streams_.events().StreamWait(stream_, outside), Error::kCaptureIsolation);
  EXPECT_EQ(StateOf(stream_), Capture::State::kInvalidated);
}

TEST_F(CaptureTest, TwoCapturesCannotMerge) {
  Stream& other = NewStream();
  Begin(stream_);
  Begin(other);
  EXPECT_EQ(streams_.events().StreamWait(other, RecordOn(stream_)), Error::kCaptureMerge);
  EXPECT_EQ(End(stream_), Error::kCaptureInvalidated);
  EXPECT_EQ(End(other), Error::kCaptureInvalidated);
}

TEST_F(CaptureTest, LegacyStreamCannotBeCapturedNorJoinOne) {
  Stream& legacy = LegacyStream();
  EXPECT_EQ(streams_.captures().Begin(legacy, CaptureMode::kGlobal, std::make_shared<Graph>(), {}),
            Error::kCaptureUnsupported);
  Begin(stream_);
  EXPECT_EQ(streams_.events().StreamWait(legacy, RecordOn(stream_)), Error::kCaptureImplicit);
}

TEST_F(CaptureTest, CaptureEndsOnTheStreamWhereItBegan) {
  Stream& side = NewStream();
  Begin(stream_);
  Wait(side, stream_);
  EXPECT_EQ(End(side), Error::kCaptureUnmatched);
  EXPECT_EQ(End(NewStream()), Error::kIllegalState);
  EXPECT_EQ(End(stream_), Error::kCaptureInvalidated);
}

TEST_F(CaptureTest, CaptureEndsOnTheThreadWhereItBeganUnlessRelaxed) {
  const auto end_elsewhere = [this] {
    Error error = Error::kUnknown;
    std::thread([&] { error = End(stream_); }).join();
    return error;
  };
  Begin(stream_, CaptureMode::kThreadLocal);
  EXPECT_EQ(end_elsewhere(), Error::kCaptureWrongThread);
  EXPECT_EQ(End(stream_), Error::kSuccess);
  Begin(stream_, CaptureMode::kRelaxed);
  EXPECT_EQ(end_elsewhere(), Error::kSuccess);
}

TEST_F(CaptureTest, ForbiddenCallFailsAndInvalidatesTheCapture) {
  Begin(stream_);
  EXPECT_EQ(streams_.captures().CheckForbidden(), Error::kCaptureUnsupported);
  EXPECT_EQ(End(stream_), Error::kCaptureInvalidated);
  EXPECT_EQ(streams_.captures().CheckForbidden(), Error::kSuccess);
}

// These calls and what they return were seen on an H200 (docs/gpu_results.md).
TEST_F(CaptureTest, AskingAnyOtherStreamOrItsEventIsForbiddenInAGlobalCapture) {
  Stream& outside = NewStream();
  Event* const event = RecordOn(outside);
  const std::vector<std::function<Error()>> calls = {
      [&] { return streams_.Query(outside); },
      [&] { return streams_.Synchronize(outside); },
      [&] { return streams_.events().Query(event); },
      [&] { return streams_.events().Synchronize(event); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    Begin(stream_);
    EXPECT_EQ(calls[i](), Error::kCaptureUnsupported);
    EXPECT_EQ(End(stream_), Error::kCaptureInvalidated);
    EXPECT_EQ(calls[i](), Error::kSuccess);
  }
}

TEST_F(CaptureTest, RelaxedThreadMayMakeForbiddenCalls) {
  Begin(stream_);
  ThisThread().capture_mode = CaptureMode::kRelaxed;
  EXPECT_EQ(streams_.captures().CheckForbidden(), Error::kSuccess);
  EXPECT_EQ(End(stream_), Error::kSuccess);
}

// Which calls of another thread a capture forbids, by the capture's mode and the thread's own.
TEST_F(CaptureTest, OtherThreadsAreForbiddenByAGlobalCaptureUnlessTheirModeIsLess) {
  const auto check_elsewhere = [this](CaptureMode mode) {
    Error error = Error::kUnknown;
    std::thread([&] {
      ThisThread().capture_mode = mode;
      error = streams_.captures().CheckForbidden();
    }).join();
    return error;
  };
  for (const auto& [capture, thread, expected] : {
           std::tuple(CaptureMode::kGlobal, CaptureMode::kGlobal, Error::kCaptureUnsupported),
           std::tuple(CaptureMode::kGlobal, CaptureMode::kThreadLocal, Error::kSuccess),
           std::tuple(CaptureMode::kGlobal, CaptureMode::kRelaxed, Error::kSuccess),
           std::tuple(CaptureMode::kThreadLocal, CaptureMode::kGlobal, Error::kSuccess),
           std::tuple(CaptureMode::kRelaxed, CaptureMode::kGlobal, Error::kSuccess),
       }) {
    SCOPED_TRACE(::testing::Message() << "capture " << static_cast<int>(capture) << " thread "
                                      << static_cast<int>(thread));
    Begin(stream_, capture);
    EXPECT_EQ(check_elsewhere(thread), expected);
    const Error ended = End(stream_);
    EXPECT_EQ(ended, expected == Error::kSuccess ? Error::kSuccess : Error::kCaptureInvalidated);
  }
}

TEST_F(CaptureTest, WaitingForAContextInvalidatesItsCapturesWhateverTheirModes) {
  for (const CaptureMode mode : {CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    SCOPED_TRACE(static_cast<int>(mode));
    ThisThread().capture_mode = CaptureMode::kRelaxed;
    Begin(stream_, mode);
    EXPECT_EQ(streams_.of(0).Synchronize(), Error::kCaptureUnsupported);
    EXPECT_EQ(End(stream_), Error::kCaptureInvalidated);
    EXPECT_EQ(streams_.of(0).Synchronize(), Error::kSuccess);
  }
}

// A capture of a blocking stream, and what the legacy stream of its context must not do meanwhile, as the program would
// make it part of the capture.
class ImplicitCaptureTest : public CaptureTest {
 protected:
  Stream& blocking_ = NewStream(Stream::Kind::kBlocking);
  Stream& legacy_ = LegacyStream();
};

TEST_F(ImplicitCaptureTest, WhetherTheLegacyStreamIsCapturedHasNoAnswerAndTheCaptureGoesOn) {
  Captures::Info info;
  Begin(blocking_, CaptureMode::kRelaxed);
  EXPECT_EQ(streams_.captures().Query(legacy_, &info), Error::kCaptureImplicit);
  EXPECT_EQ(End(blocking_), Error::kSuccess);
  EXPECT_EQ(streams_.captures().Query(legacy_, &info), Error::kSuccess);
  Begin(stream_, CaptureMode::kRelaxed);
  EXPECT_EQ(streams_.captures().Query(legacy_, &info), Error::kSuccess) << "of a stream that it has no order with";
  EXPECT_EQ(End(stream_), Error::kSuccess);
}

TEST_F(ImplicitCaptureTest, NothingIsAskedOfTheLegacyStreamWithoutEndingTheCapture) {
  Event* const event = RecordOn(stream_);
  const std::vector<std::function<Error()>> calls = {
      [&] { return streams_.Enqueue(legacy_, {}); },
      [&] { return streams_.Query(legacy_); },
      [&] { return streams_.Synchronize(legacy_); },
      [&] { return streams_.events().Record(event, legacy_); },
      [&] { return streams_.events().StreamWait(legacy_, event); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(calls[i](), Error::kSuccess);
    Begin(blocking_, CaptureMode::kRelaxed);
    EXPECT_EQ(calls[i](), Error::kCaptureImplicit);
    EXPECT_EQ(End(blocking_), Error::kCaptureInvalidated);
  }
}

TEST_F(CaptureTest, InvalidatedCaptureCanOnlyEnd) {
  Capture capture(1, std::make_shared<Graph>(), CaptureMode::kGlobal, &stream_);
  capture.Transition(Capture::Cause::kForbiddenCall);
  EXPECT_EQ(capture.state(), Capture::State::kInvalidated);
  capture.Transition(Capture::Cause::kForbiddenCall);
  EXPECT_EQ(capture.state(), Capture::State::kInvalidated);
  capture.Transition(Capture::Cause::kEnd);
  capture.Transition(Capture::Cause::kForbiddenCall);
  EXPECT_EQ(capture.state(), Capture::State::kEnded);
}

TEST_F(CaptureTest, ExecutableGraphOutlivesItsGraph) {
  int runs = 0;
  Begin(stream_);
  ASSERT_EQ(streams_.Enqueue(stream_, {WorkKind::kFill, microseconds(0), [&runs] { ++runs; }}), Error::kSuccess);
  ASSERT_EQ(End(stream_), Error::kSuccess);
  Graphs& graphs = machine_.graphs();
  Graph* handle = graphs.Add(std::move(graph_));
  ExecutableGraph* executable = graphs.AddExecutable({graphs.Find(handle)});
  ASSERT_TRUE(graphs.Remove(handle));
  EXPECT_EQ(graphs.Find(handle), nullptr);
  graphs.FindExecutable(executable)->Run();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(graphs.RemoveExecutable(executable));
  EXPECT_FALSE(graphs.RemoveExecutable(executable));
}

TEST_F(CaptureTest, DotNamesEachNodeAndEdge) {
  Begin(stream_);
  Launch(stream_, microseconds(1));
  Launch(stream_, microseconds(1));
  ASSERT_EQ(End(stream_), Error::kSuccess);
  const std::string dot = graph_->ToDot();
  EXPECT_TRUE(dot.starts_with("digraph dot {"));
  EXPECT_NE(dot.find("\"graph_1_node_0\" -> \"graph_1_node_1\""), std::string::npos);
}

}  // namespace
}  // namespace frugal::sim
