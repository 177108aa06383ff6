// Of the suite: events, the order of streams, what the host waits for, and captures.

#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/devices/device_conformance.h"

namespace frugal {
namespace {

TEST_P(DeviceConformance, ARecordedEventPassesOnceItsStreamHasWorkedSoFar) {
  const Stream stream = under_test_->NewStream();
  under_test_->Occupy(stream);
  const Event event = RecordOn(stream);
  EXPECT_FALSE(HasPassed(event));
  under_test_->EndWork();
  EXPECT_TRUE(HasPassed(event));
}

TEST_P(DeviceConformance, AnEventDoesNotWaitForWorkAfterIt) {
  const Stream stream = under_test_->NewStream();
  const Event before = RecordOn(stream);
  under_test_->Occupy(stream);
  const Event after = RecordOn(stream);
  EXPECT_TRUE(device_.Synchronize(before).ok());
  EXPECT_TRUE(HasPassed(before));
  EXPECT_FALSE(HasPassed(after));
}

TEST_P(DeviceConformance, AnEventDoesNotWaitForOtherStreams) {
  const Stream busy = under_test_->NewStream();
  under_test_->Occupy(busy);
  const Event held_up = RecordOn(busy);
  const Event event = RecordOn(under_test_->NewStream());
  EXPECT_TRUE(device_.Synchronize(event).ok());
  EXPECT_TRUE(HasPassed(event));
  EXPECT_FALSE(HasPassed(held_up));
}

TEST_P(DeviceConformance, AStreamThatWaitsIsBusyAsLongAsWhatItWaitsFor) {
  const Stream busy = under_test_->NewStream();
  const Stream waiting = under_test_->NewStream();
  under_test_->Occupy(busy);
  ASSERT_TRUE(device_.StreamWait(waiting, RecordOn(busy)).ok());
  const Event after = RecordOn(waiting);
  EXPECT_FALSE(HasPassed(after));
  under_test_->EndWork();
  EXPECT_TRUE(HasPassed(after));
}

TEST_P(DeviceConformance, AStreamMayWaitForAnEventOfItsOwnOrOneThatHasPassed) {
  const Stream stream = under_test_->NewStream();
  const Event own = RecordOn(stream);
  EXPECT_TRUE(device_.StreamWait(stream, own).ok());
  ASSERT_TRUE(device_.Synchronize(own).ok());
  EXPECT_TRUE(device_.StreamWait(under_test_->NewStream(), own).ok());
}

TEST_P(DeviceConformance, AStreamWaitsOnlyForWhatCameBeforeTheEvent) {
  const Stream first = under_test_->NewStream();
  const Stream second = under_test_->NewStream();
  const Event event = RecordOn(first);
  under_test_->Occupy(first);
  ASSERT_TRUE(device_.StreamWait(second, event).ok());
  const Event after = RecordOn(second);
  ASSERT_TRUE(device_.Synchronize(after).ok());
  EXPECT_TRUE(HasPassed(after));
}

TEST_P(DeviceConformance, TheHostWaitsUntilTheEventHasPassed) {
  const Stream stream = under_test_->NewStream();
  under_test_->Occupy(stream);
  const Event event = RecordOn(stream);
  under_test_->LetWorkEnd();
  EXPECT_TRUE(device_.Synchronize(event).ok());
  EXPECT_TRUE(HasPassed(event));
}

TEST_P(DeviceConformance, TheHostWaitsForEveryStream) {
  std::vector<Event> events;
  for (int i = 0; i < 3; ++i) {
    const Stream stream = under_test_->NewStream();
    under_test_->Occupy(stream);
    events.push_back(RecordOn(stream));
  }
  under_test_->LetWorkEnd();
  EXPECT_TRUE(device_.SynchronizeAll().ok());
  for (const Event event : events) EXPECT_TRUE(HasPassed(event));
}

TEST_P(DeviceConformance, TheDefaultStreamIsAStream) {
  const Event event = RecordOn(Stream{});
  EXPECT_TRUE(device_.StreamWait(under_test_->NewStream(), event).ok());
  EXPECT_TRUE(device_.StreamWait(Stream{}, event).ok());
  EXPECT_TRUE(device_.Synchronize(event).ok());
  EXPECT_TRUE(HasPassed(event));
}

TEST_P(DeviceConformance, AnEventThatIsHandedOutAgainIsANewPoint) {
  const Stream idle = under_test_->NewStream();
  const Stream busy = under_test_->NewStream();
  const absl::StatusOr<Event> old = device_.Record(idle);
  ASSERT_TRUE(old.ok()) << old.status();
  ASSERT_TRUE(device_.Synchronize(*old).ok());
  device_.Recycle(*old);
  under_test_->Occupy(busy);
  EXPECT_FALSE(HasPassed(RecordOn(busy)));
}

TEST_P(DeviceConformance, AThreadThatNeverUsedTheDeviceMayCall) {
  std::thread([&] {
    const Event event = RecordOn(Stream{});
    EXPECT_TRUE(device_.Synchronize(event).ok());
    EXPECT_TRUE(HasPassed(event));
    EXPECT_TRUE(device_.GetMemoryInfo().ok());
  }).join();
}

// --- Captures.

TEST_P(DeviceConformance, ACapturedStreamIsUnavailableUntilItsCaptureEnds) {
  const Stream captured = under_test_->NewStream();
  const Event event = RecordOn(under_test_->NewStream());
  under_test_->BeginCapture(captured);
  EXPECT_EQ(device_.Record(captured).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device_.StreamWait(captured, event).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(under_test_->EndCapture(captured)) << "the refusals leave the capture alone";
  RecordOn(captured);
  EXPECT_TRUE(device_.StreamWait(captured, event).ok());
}

TEST_P(DeviceConformance, OtherStreamsServeDuringACapture) {
  const Stream captured = under_test_->NewStream();
  const Event before = RecordOn(captured);
  under_test_->BeginCapture(captured);
  const Event event = RecordOn(under_test_->NewStream());
  EXPECT_TRUE(device_.StreamWait(under_test_->NewStream(), event).ok());
  EXPECT_TRUE(device_.StreamWait(under_test_->NewStream(), before).ok());
  EXPECT_TRUE(device_.HasPassed(before).ok());
  EXPECT_TRUE(device_.Synchronize(event).ok());
  EXPECT_TRUE(under_test_->EndCapture(captured));
}

TEST_P(DeviceConformance, MemoryComesAndGoesDuringACapture) {
  const Stream captured = under_test_->NewStream();
  under_test_->BeginCapture(captured);
  const absl::StatusOr<Address> segment = device_.Malloc(MiB(4));
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_TRUE(device_.Free(*segment).ok());
  EXPECT_TRUE(device_.GetMemoryInfo().ok());
  EXPECT_TRUE(under_test_->EndCapture(captured));
}

TEST_P(VirtualMemoryConformance, HandlesComeAndGoDuringACapture) {
  const Stream captured = under_test_->NewStream();
  under_test_->BeginCapture(captured);
  const Address range = Reserve(kPageSize);
  const PhysicalHandle handle = Create(kPageSize);
  MapOpen(range, kPageSize, handle);
  Unmap(range, kPageSize);
  Release(handle);
  EXPECT_TRUE(under_test_->EndCapture(captured));
}

// --- Failures.

TEST_P(DeviceConformance, AQuestionThatFailsCanBeAskedAgain) {
  if (!under_test_->SetFaults("")) GTEST_SKIP() << "this device cannot be made to fail";
  const Stream stream = under_test_->NewStream();
  const Event event = RecordOn(stream);
  const auto fails_once = [this](const std::string& call, auto ask) {
    SCOPED_TRACE(call);
    ASSERT_TRUE(under_test_->SetFaults(call + "@1=unknown"));
    EXPECT_EQ(ask().code(), absl::StatusCode::kInternal);
    const absl::Status again = ask();
    EXPECT_TRUE(again.ok()) << again;
  };
  fails_once("event_record", [&] {
    const absl::StatusOr<Event> recorded = device_.Record(stream);
    if (recorded.ok()) device_.Recycle(*recorded);
    return recorded.status();
  });
  fails_once("event_query", [&] { return device_.HasPassed(event).status(); });
  fails_once("stream_wait", [&] { return device_.StreamWait(stream, event); });
  fails_once("sync", [&] { return device_.Synchronize(event); });
  fails_once("sync", [&] { return device_.SynchronizeAll(); });
  fails_once("memory_info", [&] { return device_.GetMemoryInfo().status(); });
}

}  // namespace
}  // namespace frugal
