// What a DriverDevice says of the order within a capture.

#include "cuda/capture_order.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda/driver_device_fixture.h"

namespace frugal {
namespace {

class CaptureOrderTest : public DriverDeviceTest {
 protected:
  CaptureOrderTest() { device_->SetReuseInCapture(true); }

  void Begin(Stream stream) {
    ASSERT_EQ(SIMULATED(cudaStreamBeginCapture)(Raw(stream), cudaStreamCaptureModeGlobal), cudaSuccess);
  }
  // The number of nodes that were captured.
  size_t End(Stream stream) {
    cudaGraph_t graph = nullptr;
    size_t nodes = 0;
    EXPECT_EQ(SIMULATED(cudaStreamEndCapture)(Raw(stream), &graph), cudaSuccess);
    EXPECT_EQ(SIMULATED(cudaGraphGetNodes)(graph, nullptr, &nodes), cudaSuccess);
    return nodes;
  }
  void Work(Stream stream) { EXPECT_EQ(SIMULATED(cudaMemsetAsync)(memory_.pointer(), 0, 1, Raw(stream)), cudaSuccess); }
  void Wait(Stream waiter, Stream other) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(SIMULATED(cudaEventCreateWithFlags)(&event, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(SIMULATED(cudaEventRecord)(event, Raw(other)), cudaSuccess);
    EXPECT_EQ(SIMULATED(cudaStreamWaitEvent)(Raw(waiter), event, 0), cudaSuccess);
  }
  std::vector<CapturePoint> Mark(Stream stream) {
    const absl::StatusOr<std::vector<CapturePoint>> points = device_->MarkInCapture(stream);
    EXPECT_TRUE(points.ok()) << points.status();
    return points.value_or(std::vector<CapturePoint>());
  }
  bool IsBehind(Stream waiter, const std::vector<CapturePoint>& points) {
    return device_->BehindInCapture(waiter, points) == points;
  }

  const Address memory_ = MappedRange(1);
  const Stream main_ = NewStream();
  const Stream side_ = NewStream();
};

TEST_F(CaptureOrderTest, AStreamIsBehindAnotherOnceItHasJoinedIt) {
  Begin(main_);
  Work(main_);
  Wait(side_, main_);
  Work(side_);
  const std::vector<CapturePoint> side = Mark(side_);
  Work(main_);
  EXPECT_FALSE(IsBehind(main_, side));
  EXPECT_TRUE(IsBehind(main_, Mark(main_)));
  EXPECT_TRUE(IsBehind(side_, side));
  Wait(main_, side_);
  EXPECT_TRUE(IsBehind(main_, side)) << "all that is captured next comes after it";
  Work(main_);
  EXPECT_TRUE(IsBehind(main_, side));
  EXPECT_EQ(End(main_), 4u) << "nothing but the program's work is in the graph";
}

TEST_F(CaptureOrderTest, AStreamIsBehindWhatItHasJoinedByWayOfAnother) {
  const Stream third = NewStream();
  Begin(main_);
  for (Stream stream : {side_, third}) {
    Wait(stream, main_);
    Work(stream);
  }
  const std::vector<CapturePoint> points = Mark(third);
  Wait(side_, third);
  Work(side_);
  EXPECT_FALSE(IsBehind(main_, points));
  Wait(main_, side_);
  EXPECT_TRUE(IsBehind(main_, points));
  EXPECT_EQ(End(main_), 3u);
}

TEST_F(CaptureOrderTest, WorkAfterAJoinOfManyStreamsIsBehindEachOfThem) {
  constexpr int kMany = 20;
  Begin(main_);
  std::vector<std::vector<CapturePoint>> points;
  for (int i = 0; i < kMany; ++i) {
    const Stream stream = NewStream();
    Wait(stream, main_);
    Work(stream);
    points.push_back(Mark(stream));
    Wait(main_, stream);
  }
  Work(main_);
  for (const std::vector<CapturePoint>& of_stream : points) EXPECT_TRUE(IsBehind(main_, of_stream));
  End(main_);
}

TEST_F(CaptureOrderTest, TheBeginningOfACaptureIsBeforeAllOfItAndOfNoOther) {
  Begin(main_);
  const std::vector<CapturePoint> beginning = Mark(main_);
  Work(main_);
  const std::vector<CapturePoint> first = Mark(main_);
  EXPECT_TRUE(IsBehind(main_, beginning));
  End(main_);
  EXPECT_FALSE(IsBehind(main_, beginning)) << "the stream is not being captured";
  Begin(main_);
  Work(main_);
  EXPECT_FALSE(IsBehind(main_, beginning));
  EXPECT_FALSE(IsBehind(main_, first));
  End(main_);
}

TEST_F(CaptureOrderTest, WhatAProgramSetsByHandIsNotBehindWhatCameBefore) {
  Begin(main_);
  Work(main_);
  const std::vector<CapturePoint> first = Mark(main_);
  Work(main_);
  const std::vector<CapturePoint> second = Mark(main_);
  EXPECT_TRUE(IsBehind(main_, second));
  auto node = reinterpret_cast<cudaGraphNode_t>(first.front().node);
  ASSERT_EQ(
      SIMULATED(cudaStreamUpdateCaptureDependencies)(Raw(main_), &node, nullptr, 1, cudaStreamSetCaptureDependencies),
      cudaSuccess);
  EXPECT_TRUE(IsBehind(main_, first));
  EXPECT_FALSE(IsBehind(main_, second));
  End(main_);
}

TEST_F(CaptureOrderTest, NothingIsSaidOfWhatIsNotCapturedOrToThoseWhoDoNotAsk) {
  EXPECT_TRUE(absl::IsUnavailable(device_->MarkInCapture(main_).status()));
  Begin(main_);
  Work(main_);
  const std::vector<CapturePoint> points = Mark(main_);
  device_->SetReuseInCapture(false);
  EXPECT_TRUE(absl::IsUnavailable(device_->MarkInCapture(main_).status()));
  EXPECT_FALSE(IsBehind(main_, points));
  End(main_);
}

}  // namespace
}  // namespace frugal
