#include "tests/order/lying_device.h"

namespace frugal {
namespace {

// Nobody ever uses it.
constexpr Stream kIdle{~uint64_t{0}};

}  // namespace

std::string_view NameOf(Lie lie) {
  switch (lie) {
    case Lie::kNone:
      return "no lie";
    case Lie::kPassedTooEarly:
      return "an event that has not passed is said to have";
    case Lie::kNoStreamWait:
      return "a stream is not made to wait";
    case Lie::kNoSynchronization:
      return "the host does not wait";
    case Lie::kRecordedTooEarly:
      return "an event is recorded before the work";
  }
  return "?";
}

bool LyingDevice::Lies(Lie lie, Event event) {
  return lie_ == lie && chances_left_ > 0 && device_.IsOutstanding(event) && --chances_left_ == 0;
}

absl::StatusOr<Event> LyingDevice::Record(Stream stream) {
  absl::StatusOr<Event> event = device_.Record(stream);
  if (!event.ok() || !Lies(Lie::kRecordedTooEarly, *event)) return event;
  device_.Recycle(*event);
  return device_.Record(kIdle);
}

absl::StatusOr<bool> LyingDevice::HasPassed(Event event) {
  if (Lies(Lie::kPassedTooEarly, event)) return true;
  return device_.HasPassed(event);
}

absl::Status LyingDevice::StreamWait(Stream stream, Event event) {
  if (!device_.IsOrderedAfter(stream, event) && Lies(Lie::kNoStreamWait, event)) return absl::OkStatus();
  return device_.StreamWait(stream, event);
}

absl::Status LyingDevice::Synchronize(Event event) {
  if (Lies(Lie::kNoSynchronization, event)) return absl::OkStatus();
  return device_.Synchronize(event);
}

}  // namespace frugal
