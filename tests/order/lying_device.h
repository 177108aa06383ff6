// A device that tells one lie about the order of work: each is a bug that the policy could have, planted from outside.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "allocator/port/device.h"
#include "tests/devices/forwarding_device.h"
#include "tests/order/logged_device.h"

namespace frugal {

// A lie is told only where it could make a difference: about an event that has not passed, and of waits only about
// those that order something.
enum class Lie {
  kNone,
  kPassedTooEarly,     // HasPassed says true.
  kNoStreamWait,       // The wait is not put into the stream.
  kNoSynchronization,  // The host does not wait.
  kRecordedTooEarly,   // The event marks the beginning of time, not where the stream is.
};
inline constexpr std::array kLies = {Lie::kPassedTooEarly, Lie::kNoStreamWait, Lie::kNoSynchronization,
                                     Lie::kRecordedTooEarly};
inline const char* NameOf(Lie lie) {
  constexpr std::array kNames = {"no lie", "an event that has not passed is said to have",
                                 "a stream is not made to wait", "the host does not wait",
                                 "an event is recorded before the work"};
  return kNames[static_cast<size_t>(lie)];
}
inline const char* NameOf(WorkLog::Excuse excuse) {
  constexpr std::array kNames = {"nothing was left to wait for", "the memory was not used again",
                                 "its next use was ordered by something else"};
  return kNames[static_cast<size_t>(excuse)];
}

class LyingDevice final : public ForwardingDevice {
 public:
  explicit LyingDevice(LoggedDevice& device) : ForwardingDevice(static_cast<Device&>(device)), device_(device) {}

  // The n-th chance, from 1, for `lie` is taken. Counting begins now.
  void PlanLie(Lie lie, int64_t n) {
    lie_ = lie;
    chances_left_ = n;
    told_.reset();
  }
  bool has_lied() const { return told_.has_value(); }
  // Why the lie did no harm. REQUIRES: it was told, and did none.
  WorkLog::Excuse Excuse() const { return device_.log().ExcuseFor(told_->event, told_->asker, told_->moment); }

  absl::StatusOr<Event> Record(Stream stream) override {
    absl::StatusOr<Event> event = device_.Record(stream);
    if (!event.ok() || !Lies(Lie::kRecordedTooEarly, *event, std::nullopt)) return event;
    device_.Recycle(*event);
    return device_.Record(kIdle);
  }
  absl::StatusOr<bool> HasPassed(Event event) override {
    if (Lies(Lie::kPassedTooEarly, event, std::nullopt)) return true;
    return device_.HasPassed(event);
  }
  absl::Status StreamWait(Stream stream, Event event) override {
    const bool orders_something = !device_.simulated().IsOrderedAfter(stream, event);
    if (orders_something && Lies(Lie::kNoStreamWait, event, stream)) return absl::OkStatus();
    return device_.StreamWait(stream, event);
  }
  absl::Status Synchronize(Event event) override {
    if (Lies(Lie::kNoSynchronization, event, std::nullopt)) return absl::OkStatus();
    return device_.Synchronize(event);
  }
  absl::Status SynchronizeAll() override {
    if (!device_.simulated().IsBusy() || !IsTheChance(Lie::kNoSynchronization)) return device_.SynchronizeAll();
    told_ = {device_.RecordAll(), std::nullopt, device_.log().now()};
    return absl::OkStatus();
  }

 private:
  // Nobody ever uses it.
  static constexpr Stream kIdle{~uint64_t{0}};
  struct Told {
    Event event;
    std::optional<Stream> asker;  // nullopt: the host.
    Moment moment;
  };

  // Whether this call, of a kind that `lie` concerns, is the one to lie in.
  bool IsTheChance(Lie lie) { return lie_ == lie && chances_left_ > 0 && --chances_left_ == 0; }
  // Whether to lie to `asker` about `event` in this call of a kind that `lie` concerns.
  bool Lies(Lie lie, Event event, std::optional<Stream> asker) {
    if (!device_.simulated().IsOutstanding(event) || !IsTheChance(lie)) return false;
    told_ = {event, asker, device_.log().now()};
    return true;
  }

  LoggedDevice& device_;
  std::optional<Told> told_;
  Lie lie_ = Lie::kNone;
  int64_t chances_left_ = 0;
};

}  // namespace frugal
