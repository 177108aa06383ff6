// A device that keeps a thread inside one of its calls: for tests of what others can do meanwhile.

#pragma once

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {

// Keeps the thread that makes the nth call of a kind inside it until it may go on. The call fails then, and as many of
// the kind after it as were asked for.
class HoldingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  void Hold(Call call, int nth, int failures) {
    absl::MutexLock lock(&mutex_);
    call_ = call;
    calls_until_ = nth;
    failures_ = failures;
  }
  // False: End came first.
  bool AwaitHeld() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](HoldingDevice* self) { return self->is_held_ || self->has_ended_; }, this));
    return is_held_;
  }
  void GoOn() {
    absl::MutexLock lock(&mutex_);
    is_held_ = false;
  }
  // Nobody is held or failed any more.
  void End() {
    absl::MutexLock lock(&mutex_);
    has_ended_ = true;
  }
  int failed() const {
    absl::MutexLock lock(&mutex_);
    return failed_;
  }

 private:
  absl::Status Before(Call call) override {
    absl::MutexLock lock(&mutex_);
    if (call != call_ || has_ended_) return absl::OkStatus();
    if (--calls_until_ == 0) {
      is_held_ = true;
      mutex_.Await(absl::Condition(
          +[](HoldingDevice* self) { return !self->is_held_; }, this));
    }
    if (calls_until_ > 0 || failures_ == 0) return absl::OkStatus();
    --failures_;
    ++failed_;
    return absl::InternalError("the driver fails");
  }

  mutable absl::Mutex mutex_;
  Call call_ = Call::kMap;
  int calls_until_ = 0;
  int failures_ = 0;
  int failed_ = 0;
  bool is_held_ = false;
  bool has_ended_ = false;
};

}  // namespace frugal
