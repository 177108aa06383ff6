#include "allocator/blocks/stream_clock.h"

#include <utility>

namespace frugal {

absl::Status StreamClock::Mark() {
  absl::StatusOr<std::shared_ptr<Fence>> fence = Fence::Record(device_, stream_);
  if (!fence.ok()) return Noted(fence.status());
  fences_.push_back(*std::move(fence));
  ++now_;
  return Noted(absl::OkStatus());
}

void StreamClock::Settle() {
  fences_.clear();
  passed_ = now_++;
  fails_ = false;
}

absl::StatusOr<bool> StreamClock::End(Tick tick) {
  if (tick < now_) return true;
  if (!stream_.lasts()) return false;
  absl::Status marked = Mark();
  if (absl::IsUnavailable(marked)) return false;
  if (!marked.ok()) return marked;
  return true;
}

absl::StatusOr<bool> StreamClock::HasPassedOnceEnded(Tick tick) {
  absl::StatusOr<bool> ended = End(tick);
  return ended.ok() ? HasPassed(tick) : ended;
}

absl::StatusOr<bool> StreamClock::HasPassed(Tick tick) {
  if (tick <= passed_) return true;
  if (tick >= now_) return false;
  absl::StatusOr<bool> passed = FenceOf(tick).HasPassed();
  if (absl::Status status = Noted(passed.status()); !status.ok()) return status;
  if (*passed) Passed(tick);
  return passed;
}

absl::Status StreamClock::Synchronize(Tick tick) {
  if (tick <= passed_) return absl::OkStatus();
  const absl::StatusOr<bool> ended = End(tick);
  if (!ended.ok()) return ended.status();
  if (!*ended) return absl::UnavailableError("the stream cannot be marked now");
  absl::Status status = Noted(FenceOf(tick).Synchronize());
  if (status.ok()) Passed(tick);
  return status;
}

absl::Status StreamClock::MakeWait(Stream waiter, Tick tick) {
  return tick <= passed_ ? absl::OkStatus() : Noted(FenceOf(tick).MakeWait(waiter));
}

absl::Status StreamClock::Noted(absl::Status status) {
  if (!absl::IsUnavailable(status) && !absl::IsNotFound(status)) fails_ = !status.ok();
  return status;
}

void StreamClock::Passed(Tick tick) {
  fences_.erase(fences_.begin(), fences_.begin() + (tick - passed_));
  passed_ = tick;
}

}  // namespace frugal
