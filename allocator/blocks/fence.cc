#include "allocator/blocks/fence.h"

namespace frugal {

absl::StatusOr<std::shared_ptr<Fence>> Fence::Record(Device& device, Stream stream) {
  absl::StatusOr<Event> event = device.Record(stream);
  if (!event.ok()) return event.status();
  return std::make_shared<Fence>(device, stream, *event);
}

// Not before: another thread may be asking about the event that has passed.
Fence::~Fence() { device_.Recycle(event_); }

absl::StatusOr<bool> Fence::HasPassed() {
  if (passed_) return true;
  absl::StatusOr<bool> passed = device_.HasPassed(event_);
  if (passed.ok() && *passed) passed_ = true;
  return passed;
}

absl::Status Fence::Synchronize() {
  if (passed_) return absl::OkStatus();
  absl::Status status = device_.Synchronize(event_);
  if (status.ok()) {
    passed_ = true;
    return status;
  }
  // A driver that cannot wait may still answer, and the program may have waited itself.
  return HasPassed().value_or(false) ? absl::OkStatus() : status;
}

absl::Status Fence::MakeWait(Stream stream) {
  return passed_ || stream == stream_ ? absl::OkStatus() : device_.StreamWait(stream, event_);
}

}  // namespace frugal
