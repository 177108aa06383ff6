#include "allocator/blocks/stream_clock.h"

#include <algorithm>
#include <utility>

#include "allocator/port/check.h"

namespace frugal {

absl::Status StreamClock::Mark() {
  const Tick tick = Close();
  const Stream stream = stream_;
  absl::StatusOr<std::shared_ptr<Fence>> fence = lock_.DuringDriverCall([&] { return Fence::Record(device_, stream); });
  if (!fence.ok()) return Noted(fence.status());
  // Others may have ended later ticks meanwhile, or waited for them.
  if (!IsPassed(tick)) {
    const auto later =
        std::find_if(ends_.rbegin(), ends_.rend(), [tick](const TickEnd& end) { return end.tick < tick; }).base();
    ends_.insert(later, {tick, *std::move(fence)});
  }
  return Noted(absl::OkStatus());
}

void StreamClock::Settle(Tick tick) {
  Passed(tick);
  fails_ = false;
}

absl::StatusOr<bool> StreamClock::End(Tick tick) {
  if (IsEnded(tick)) return true;
  if (!stream_.lasts()) return false;
  absl::Status marked = Mark();
  if (absl::IsUnavailable(marked)) return false;
  if (!marked.ok()) return marked;
  return true;
}

absl::StatusOr<bool> StreamClock::HasPassed(Tick tick) {
  absl::StatusOr<bool> ended = End(tick);
  if (!ended.ok() || !*ended) return ended;
  if (IsPassed(tick)) return true;
  const TickEnd end = EndOf(tick);
  absl::StatusOr<bool> passed = Asked(end, [](Fence& fence) { return fence.HasPassed(); });
  if (absl::Status status = Noted(passed.status()); !status.ok()) return status;
  if (*passed) Passed(end.tick);
  return passed;
}

absl::Status StreamClock::Synchronize(Tick tick) {
  const absl::StatusOr<bool> ended = End(tick);
  if (!ended.ok()) return ended.status();
  if (!*ended) return absl::UnavailableError("the stream cannot be marked now");
  if (IsPassed(tick)) return absl::OkStatus();
  const TickEnd end = EndOf(tick);
  absl::Status status = Noted(Asked(end, [](Fence& fence) { return fence.Synchronize(); }));
  if (status.ok()) Passed(end.tick);
  return status;
}

absl::Status StreamClock::MakeWait(Stream waiter, Tick tick) {
  if (IsPassed(tick)) return absl::OkStatus();
  return Noted(Asked(EndOf(tick), [waiter](Fence& fence) { return fence.MakeWait(waiter); }));
}

absl::StatusOr<std::vector<CapturePoint>> StreamClock::MarkInCapture() {
  const Stream stream = stream_;
  return lock_.DuringDriverCall([&] { return device_.MarkInCapture(stream); });
}

std::vector<CapturePoint> StreamClock::BehindInCapture(const std::vector<CapturePoint>& points) {
  const Stream stream = stream_;
  return lock_.DuringDriverCall([&] { return device_.BehindInCapture(stream, points); });
}

StreamClock::TickEnd StreamClock::EndOf(Tick tick) const {
  const auto end = std::lower_bound(ends_.begin(), ends_.end(), tick,
                                    [](const TickEnd& known, Tick wanted) { return known.tick < wanted; });
  FRUGAL_CHECK(end != ends_.end());
  return *end;
}

absl::Status StreamClock::Noted(absl::Status status) {
  if (!absl::IsUnavailable(status) && !absl::IsNotFound(status)) fails_ = !status.ok();
  return status;
}

void StreamClock::Passed(Tick tick) {
  passed_ = std::max(passed_, tick);
  while (!ends_.empty() && ends_.front().tick <= passed_) ends_.pop_front();
}

}  // namespace frugal
