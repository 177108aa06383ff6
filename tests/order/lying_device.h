// A device that tells one lie about the order of work: each is a bug that the policy could have, planted from outside.

#ifndef FRUGAL_TESTS_ORDER_LYING_DEVICE_H_
#define FRUGAL_TESTS_ORDER_LYING_DEVICE_H_

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
const char* NameOf(Lie lie);
const char* NameOf(WorkLog::Excuse excuse);

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

  absl::StatusOr<Event> Record(Stream stream) override;
  absl::StatusOr<bool> HasPassed(Event event) override;
  absl::Status StreamWait(Stream stream, Event event) override;
  absl::Status Synchronize(Event event) override;
  absl::Status SynchronizeAll() override;

 private:
  struct Told {
    Event event;
    std::optional<Stream> asker;  // nullopt: the host.
    Moment moment;
  };

  // Whether this call, of a kind that `lie` concerns, is the one to lie in.
  bool IsTheChance(Lie lie) { return lie_ == lie && chances_left_ > 0 && --chances_left_ == 0; }
  // Whether to lie to `asker` about `event` in this call of a kind that `lie` concerns.
  bool Lies(Lie lie, Event event, std::optional<Stream> asker);

  LoggedDevice& device_;
  std::optional<Told> told_;
  Lie lie_ = Lie::kNone;
  int64_t chances_left_ = 0;
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_ORDER_LYING_DEVICE_H_
