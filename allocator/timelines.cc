#include "allocator/timelines.h"

#include <algorithm>
#include <utility>

namespace frugal {

Timeline& Timelines::Get(Stream stream) {
  std::unique_ptr<Timeline>& timeline = by_stream_[stream];
  if (timeline == nullptr) {
    timeline = std::make_unique<Timeline>(device_, stream);
    all_.push_back(timeline.get());
  }
  return *timeline;
}

bool Timelines::EndEra() {
  bool captures = false;
  Marks marks;
  for (Timeline* timeline : all_) {
    const Timeline::Tick now = timeline->now();
    const absl::StatusOr<bool> ended = timeline->End(now);
    ledger_.Absorbed(ended.status());
    const bool is_captured = ended.ok() && !*ended && !timeline->stream().may_end;
    if (!is_captured) marks.push_back({timeline, now});
    captures = captures || is_captured;
  }
  ended_.push_back(std::move(marks));
  ++era_;
  return captures;
}

bool Timelines::HasPassed(Era era) {
  if (era <= passed_) return true;
  if (era >= era_) End();
  Marks& marks = MarksOf(era);
  while (!marks.empty()) {
    const Mark& last = marks.back();
    const absl::StatusOr<bool> passed = last.timeline->HasPassedOnceEnded(last.tick);
    ledger_.Absorbed(passed.status());
    if (!passed.value_or(false)) return false;
    marks.pop_back();
  }
  Passed(era);
  return true;
}

bool Timelines::WaitForAll() {
  const bool captures = EndEra() || (reclaimer_ != nullptr && reclaimer_->IsCapturing());
  if (!captures && SynchronizeAll()) {
    for (Timeline* timeline : all_) timeline->Settle();
    Passed(era_ - 1);
    return true;
  }
  for (Timeline* timeline : all_) {
    const absl::Status status = timeline->Synchronize(timeline->now() - 1);
    if (!absl::IsUnavailable(status)) ledger_.Absorbed(status);
  }
  return false;
}

bool Timelines::NeedsHost() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Timeline* timeline) { return timeline->stream().may_end || timeline->fails(); });
}

bool Timelines::SynchronizeAll() {
  absl::Status status = device_.SynchronizeAll();
  if (status.ok()) return true;
  // Once more, since what failed may have been earlier work of the program's.
  ledger_.Absorbed(status);
  status = device_.SynchronizeAll();
  ledger_.Absorbed(status);
  return status.ok();
}

void Timelines::Passed(Era era) {
  ended_.erase(ended_.begin(), ended_.begin() + (era - passed_));
  passed_ = era;
}

}  // namespace frugal
