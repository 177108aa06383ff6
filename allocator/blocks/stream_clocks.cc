#include "allocator/blocks/stream_clocks.h"

#include <algorithm>
#include <utility>

namespace frugal {
namespace {

// What the streams that have a handle one after the other have in common.
Stream WithoutLife(Stream stream) { return {stream.id, stream.context, stream.lasts() ? 0u : 1u}; }

}  // namespace

StreamClock& StreamClocks::Name(Stream stream) {
  const auto known = by_stream_.find(WithoutLife(stream));
  if (known != by_stream_.end() && known->second->clock.stream() == stream) {
    Member& member = *known->second;
    if (!stream.lasts() && member.marked_in < era_) MarkNamed(member);
    return member.clock;
  }
  if (known != by_stream_.end()) {
    gone_.push_back(known->second);
    by_stream_.erase(known);
  }
  Member& begun = Begin(stream);
  by_stream_.emplace(WithoutLife(stream), &begun);
  return begun.clock;
}

StreamClock* StreamClocks::Find(Stream stream) const {
  const auto known = by_stream_.find(WithoutLife(stream));
  if (known != by_stream_.end() && known->second->clock.stream() == stream) return &known->second->clock;
  const auto gone =
      std::find_if(gone_.begin(), gone_.end(), [&](const Member* one) { return one->clock.stream() == stream; });
  return gone == gone_.end() ? nullptr : &(*gone)->clock;
}

StreamClocks::Member& StreamClocks::Begin(Stream stream) {
  if (gone_.size() >= kMostEnded) {
    ++ledger_.statistics().num_sync_all_streams;
    // During a capture they become more.
    TryWaitForAll();
  }
  if (unused_.empty() || stream.lasts()) {
    all_.push_back(std::make_unique<Member>(device_, stream, era_));
    return *all_.back();
  }
  Member& again = *unused_.back();
  unused_.pop_back();
  again.clock.Become(stream);
  again.marked_in = era_;
  again.aside = 0;
  return again;
}

void StreamClocks::MarkNamed(Member& member) {
  const Tick tick = member.clock.now();
  const absl::Status status = member.clock.Mark();
  // Else at the next naming.
  if (!status.ok() && !absl::IsUnavailable(status)) ledger_.failures().Absorb(status);
  if (!status.ok()) return;
  member.marked_in = era_;
  if (member.aside >= tick) member.aside = 0;
}

bool StreamClocks::EndEra() {
  bool captures = false;
  Marks marks;
  for (const std::unique_ptr<Member>& member : all_) {
    if (IsAside(*member)) continue;
    StreamClock& clock = member->clock;
    const Tick now = clock.now();
    const absl::StatusOr<bool> ended = clock.End(now);
    ledger_.failures().Absorb(ended.status());
    const bool is_captured = ended.ok() && !*ended && clock.stream().lasts();
    if (!is_captured) marks.push_back({member.get(), now});
    captures = captures || is_captured;
  }
  ended_.push_back(std::move(marks));
  ++era_;
  return captures;
}

bool StreamClocks::IsAside(Member& member) {
  if (member.aside != 0 && HasPassed(Mark{&member, member.aside})) member.aside = 0;
  return member.aside != 0;
}

bool StreamClocks::HasPassed(const Mark& mark) {
  const absl::StatusOr<bool> passed = mark.member->clock.HasPassedOnceEnded(mark.tick);
  ledger_.failures().Absorb(passed.status());
  return passed.value_or(false);
}

bool StreamClocks::HasPassed(Era era) {
  if (era <= passed_) return true;
  if (era >= era_) End();
  Marks& marks = MarksOf(era);
  while (!marks.empty()) {
    if (!HasPassed(marks.back())) return false;
    marks.pop_back();
  }
  Passed(era);
  return true;
}

StreamClocks::Marks& StreamClocks::Outstanding(Era era) {
  Marks& marks = MarksOf(era);
  std::erase_if(marks, [this](const Mark& mark) { return HasPassed(mark); });
  return marks;
}

bool StreamClocks::NeedsHost(Era era) {
  if (era <= passed_) return false;
  const Marks& marks = Outstanding(era);
  return !marks.empty() && std::all_of(marks.begin(), marks.end(), [](const Mark& mark) {
    const StreamClock& clock = mark.member->clock;
    return clock.fails() || (!clock.stream().lasts() && mark.tick >= clock.now());
  });
}

void StreamClocks::SetAside(Era era) {
  if (era <= passed_) return;
  for (const Mark& mark : Outstanding(era)) mark.member->aside = mark.tick;
  for (Marks& marks : ended_) std::erase_if(marks, [](const Mark& mark) { return mark.member->aside != 0; });
}

bool StreamClocks::TryWaitForAll() {
  // All are asked whether they are being captured.
  for (const std::unique_ptr<Member>& member : all_) member->aside = 0;
  const bool captures = EndEra() || (reclaimer_ != nullptr && reclaimer_->IsCapturing());
  if (captures || !SynchronizeAll()) return false;
  Settle();
  return true;
}

bool StreamClocks::WaitForAll() {
  if (TryWaitForAll()) return true;
  for (const std::unique_ptr<Member>& member : all_) {
    const absl::Status status = member->clock.Synchronize(member->clock.now() - 1);
    if (!absl::IsUnavailable(status)) ledger_.failures().Absorb(status);
  }
  return false;
}

void StreamClocks::Settle() {
  for (const std::unique_ptr<Member>& member : all_) {
    const bool can_be_asked = member->clock.stream().lasts() && !member->clock.fails();
    member->clock.Settle();
    if (!can_be_asked) member->aside = member->clock.now();
  }
  unused_.insert(unused_.end(), gone_.begin(), gone_.end());
  gone_.clear();
  Passed(era_ - 1);
}

bool StreamClocks::NeedsHost() const {
  return std::any_of(all_.begin(), all_.end(), [](const std::unique_ptr<Member>& member) {
    return !member->clock.stream().lasts() || member->clock.fails();
  });
}

bool StreamClocks::IsQuiet() {
  if (EndEra() || (reclaimer_ != nullptr && reclaimer_->IsCapturing())) return false;
  return std::all_of(all_.begin(), all_.end(), [this](const std::unique_ptr<Member>& member) {
    const StreamClock& clock = member->clock;
    return !clock.stream().lasts() || clock.fails() || HasPassed(Mark{member.get(), clock.now() - 1});
  });
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
