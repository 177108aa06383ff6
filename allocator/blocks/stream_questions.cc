#include "allocator/blocks/stream_questions.h"

#include <algorithm>
#include <utility>

namespace frugal {

bool StreamQuestions::HasPassed(StreamClock& clock, Tick tick) {
  return clock.IsPassed(tick) || IsOpen(Of(clock).passed, tick);
}

bool StreamQuestions::IsEnded(StreamClock& clock, Tick tick) {
  return clock.IsEnded(tick) || IsOpen(Of(clock).ended, tick);
}

bool StreamQuestions::IsBehind(Stream waiter, StreamClock& clock, Tick tick) {
  if (clock.IsPassed(tick)) return true;
  OfStream& of = Of(clock);
  if (tick <= of.waited_for) return true;
  of.waiter = waiter;
  return clock.IsEnded(tick) && IsOpen(of.behind, tick);
}

bool StreamQuestions::HaveLeft(Era era, StreamClock& clock, Tick tick) {
  return clocks_.IsPassed(era) ? HasPassed(clock, tick) : IsOpen(eras_, era);
}

bool StreamQuestions::Forget() {
  bool was_refused = std::exchange(eras_.refused, kNever) != kNever;
  for (OfStream& of : streams_) {
    for (Points* points : {&of.passed, &of.ended, &of.behind}) {
      was_refused = std::exchange(points->refused, kNever) != kNever || was_refused;
    }
  }
  return was_refused;
}

bool StreamQuestions::Ask() {
  if (!has_open_) return false;
  has_open_ = false;
  ++rounds_;
  Settle(eras_, [this](Era era) { return clocks_.HasPassed(era); });
  for (OfStream& of : streams_) {
    StreamClock& clock = *of.clock;
    Settle(of.ended, [&](Tick tick) { return Answer(clock.End(tick)); });
    Settle(of.passed, [&](Tick tick) { return Answer(clock.HasPassed(tick)); });
    Settle(of.behind, [&](Tick tick) { return MakeWait(of, tick); });
  }
  return true;
}

StreamQuestions::OfStream& StreamQuestions::Of(StreamClock& clock) {
  const auto known =
      std::find_if(streams_.begin(), streams_.end(), [&clock](const OfStream& of) { return of.clock == &clock; });
  if (known != streams_.end()) return *known;
  streams_.push_back({.clock = &clock});
  return streams_.back();
}

bool StreamQuestions::IsOpen(Points& points, int64_t point) {
  if (point >= points.refused || rounds_ == kMostRounds) return false;
  if (points.open.empty() || points.open.back() != point) points.open.push_back(point);
  has_open_ = true;
  return true;
}

void StreamQuestions::Settle(Points& points, absl::FunctionRef<bool(int64_t)> is_so) {
  std::vector<int64_t> open = std::exchange(points.open, {});
  std::sort(open.begin(), open.end());
  if (open.empty() || is_so(open.back())) return;
  points.refused = open.back();
  for (int64_t point : open) {
    if (point < points.refused && !is_so(point)) points.refused = point;
  }
}

bool StreamQuestions::Answer(const absl::StatusOr<bool>& answer) {
  ledger_.failures().Absorb(answer.status());
  return answer.value_or(false);
}

bool StreamQuestions::MakeWait(OfStream& of, Tick tick) {
  const absl::Status waits = of.clock->MakeWait(of.waiter, tick);
  // A stream that is being captured cannot be waited for, nor can it wait.
  if (!absl::IsUnavailable(waits)) ledger_.failures().Absorb(waits);
  if (!waits.ok()) return false;
  ledger_.StreamWaited();
  of.waited_for = tick;
  return true;
}

}  // namespace frugal
