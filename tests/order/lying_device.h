// A device that tells one lie about the order of work: each is a bug that the policy could have, planted from outside.

#ifndef FRUGAL_TESTS_ORDER_LYING_DEVICE_H_
#define FRUGAL_TESTS_ORDER_LYING_DEVICE_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "allocator/device.h"
#include "cuda/simulated/simulated_device.h"
#include "tests/devices/forwarding_device.h"

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
std::string_view NameOf(Lie lie);

class LyingDevice final : public ForwardingDevice {
 public:
  explicit LyingDevice(sim::SimulatedDevice& device) : ForwardingDevice(device), device_(device) {}

  // The n-th chance, from 1, for `lie` is taken. Counting begins now.
  void PlanLie(Lie lie, int64_t n) {
    lie_ = lie;
    chances_left_ = n;
  }
  bool has_lied() const { return lie_ != Lie::kNone && chances_left_ <= 0; }

  absl::StatusOr<Event> Record(Stream stream) override;
  absl::StatusOr<bool> HasPassed(Event event) override;
  absl::Status StreamWait(Stream stream, Event event) override;
  absl::Status Synchronize(Event event) override;

 private:
  // Whether to lie about `event` in this call of a kind that `lie` concerns.
  bool Lies(Lie lie, Event event);

  sim::SimulatedDevice& device_;
  Lie lie_ = Lie::kNone;
  int64_t chances_left_ = 0;
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_ORDER_LYING_DEVICE_H_
