#include "allocator/blocks/stream_clocks.h"

#include <algorithm>
#include <utility>

namespace frugal {

StreamClock& StreamClocks::Get(Stream stream) {
  std::unique_ptr<StreamClock>& clock = by_stream_[stream];
  if (clock == nullptr) {
    clock = std::make_unique<StreamClock>(device_, stream);
    all_.push_back(clock.get());
  }
  return *clock;
}

bool StreamClocks::EndEra() {
  bool captures = false;
  Marks marks;
  for (StreamClock* clock : all_) {
    const StreamClock::Tick now = clock->now();
    const absl::StatusOr<bool> ended = clock->End(now);
    ledger_.failures().Absorb(ended.status());
    const bool is_captured = ended.ok() && !*ended && !clock->stream().may_end;
    if (!is_captured) marks.push_back({clock, now});
    captures = captures || is_captured;
  }
  ended_.push_back(std::move(marks));
  ++era_;
  return captures;
}

bool StreamClocks::HasPassed(Era era) {
  if (era <= passed_) return true;
  if (era >= era_) End();
  Marks& marks = MarksOf(era);
  while (!marks.empty()) {
    const Mark& last = marks.back();
    const absl::StatusOr<bool> passed = last.clock->HasPassedOnceEnded(last.tick);
    ledger_.failures().Absorb(passed.status());
    if (!passed.value_or(false)) return false;
    marks.pop_back();
  }
  Passed(era);
  return true;
}

bool StreamClocks::WaitForAll() {
  const bool captures = EndEra() || (reclaimer_ != nullptr && reclaimer_->IsCapturing());
  if (!captures && SynchronizeAll()) {
    for (StreamClock* clock : all_) clock->Settle();
    Passed(era_ - 1);
    return true;
  }
  for (StreamClock* clock : all_) {
    const absl::Status status = clock->Synchronize(clock->now() - 1);
    if (!absl::IsUnavailable(status)) ledger_.failures().Absorb(status);
  }
  return false;
}

bool StreamClocks::NeedsHost() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const StreamClock* clock) { return clock->stream().may_end || clock->fails(); });
}

bool StreamClocks::SynchronizeAll() {
  absl::Status status = device_.SynchronizeAll();
  if (status.ok()) return true;
  // Once more, since what failed may have been earlier work of the program's.
  ledger_.failures().Absorb(status);
  status = device_.SynchronizeAll();
  ledger_.failures().Absorb(status);
  return status.ok();
}

void StreamClocks::Passed(Era era) {
  ended_.erase(ended_.begin(), ended_.begin() + (era - passed_));
  passed_ = era;
}

}  // namespace frugal
