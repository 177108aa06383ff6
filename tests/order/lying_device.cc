#include "tests/order/lying_device.h"

namespace frugal {
namespace {

// Nobody ever uses it.
constexpr Stream kIdle{~uint64_t{0}};

}  // namespace

const char* NameOf(Lie lie) {
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

const char* NameOf(WorkLog::Excuse excuse) {
  switch (excuse) {
    case WorkLog::Excuse::kNothingBefore:
      return "nothing was left to wait for";
    case WorkLog::Excuse::kNotUsedAgain:
      return "the memory was not used again";
    case WorkLog::Excuse::kOrderedByOther:
      return "its next use was ordered by something else";
  }
  return "?";
}

bool LyingDevice::Lies(Lie lie, Event event, std::optional<Stream> asker) {
  if (!device_.simulated().IsOutstanding(event) || !IsTheChance(lie)) return false;
  told_ = {event, asker, device_.log().now()};
  return true;
}

absl::StatusOr<Event> LyingDevice::Record(Stream stream) {
  absl::StatusOr<Event> event = device_.Record(stream);
  if (!event.ok() || !Lies(Lie::kRecordedTooEarly, *event, std::nullopt)) return event;
  device_.Recycle(*event);
  return device_.Record(kIdle);
}

absl::StatusOr<bool> LyingDevice::HasPassed(Event event) {
  if (Lies(Lie::kPassedTooEarly, event, std::nullopt)) return true;
  return device_.HasPassed(event);
}

absl::Status LyingDevice::StreamWait(Stream stream, Event event) {
  const bool orders_something = !device_.simulated().IsOrderedAfter(stream, event);
  if (orders_something && Lies(Lie::kNoStreamWait, event, stream)) return absl::OkStatus();
  return device_.StreamWait(stream, event);
}

absl::Status LyingDevice::Synchronize(Event event) {
  if (Lies(Lie::kNoSynchronization, event, std::nullopt)) return absl::OkStatus();
  return device_.Synchronize(event);
}

absl::Status LyingDevice::SynchronizeAll() {
  if (!device_.simulated().IsBusy() || !IsTheChance(Lie::kNoSynchronization)) return device_.SynchronizeAll();
  told_ = {device_.RecordAll(), std::nullopt, device_.log().now()};
  return absl::OkStatus();
}

}  // namespace frugal
