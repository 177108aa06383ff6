#include "allocator/blocks/stream_clocks.h"

#include <algorithm>

namespace frugal {
namespace {

// What the streams that have a handle one after the other have in common.
Stream WithoutLife(Stream stream) { return {stream.id, stream.context, stream.lasts() ? 0u : 1u}; }

}  // namespace

StreamClock& StreamClocks::Name(Stream stream) {
  for (bool has_waited = false;; has_waited = true) {
    if (Member* const present = FindPresent(stream); present != nullptr) {
      if (!stream.lasts() && present->marked_in < era_) MarkNamed(*present);
      return present->clock;
    }
    if (const auto before = by_stream_.find(WithoutLife(stream)); before != by_stream_.end()) {
      gone_.push_back(before->second);
      by_stream_.erase(before);
    }
    if (gone_.size() < kMostEnded || has_waited) break;
    // During a capture they become more. Others may name the stream meanwhile.
    TryWaitForAll();
  }
  Member& begun = Begin(stream);
  by_stream_.emplace(WithoutLife(stream), &begun);
  return begun.clock;
}

StreamClocks::Member* StreamClocks::FindPresent(Stream stream) const {
  const auto known = by_stream_.find(WithoutLife(stream));
  return known != by_stream_.end() && known->second->clock.stream() == stream ? known->second : nullptr;
}

StreamClock* StreamClocks::Find(Stream stream) const {
  if (Member* const present = FindPresent(stream); present != nullptr) return &present->clock;
  const auto gone =
      std::find_if(gone_.begin(), gone_.end(), [&](const Member* member) { return member->clock.stream() == stream; });
  return gone == gone_.end() ? nullptr : &(*gone)->clock;
}

StreamClocks::Member& StreamClocks::Begin(Stream stream) {
  if (unused_.empty() || stream.lasts()) {
    all_.push_back(std::make_unique<Member>(device_, stream, era_, lock_));
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
  const Era era = era_;
  const absl::Status status = member.clock.Mark();
  // Else at the next naming.
  if (!status.ok() && !absl::IsUnavailable(status)) ledger_.failures().Absorb(status);
  if (!status.ok()) return;
  member.marked_in = era;
  if (member.aside >= tick) member.aside = 0;
}

StreamClocks::EndedEra StreamClocks::EndEra() {
  TakeBackAside();
  EndedEra ended{era_++, absl::OkStatus()};
  Marks marks;
  for (const std::unique_ptr<Member>& member : all_) {
    if (member->aside == 0) marks.push_back({member.get(), member->clock.now()});
  }
  ended_.push_back(marks);
  for (const Mark& mark : marks) {
    const absl::StatusOr<bool> made = mark.member->clock.End(mark.tick);
    ledger_.failures().Absorb(made.status());
    if (absl::IsUnknown(made.status())) ended.may_wait.Update(made.status());
    if (!made.ok() || *made || !mark.member->clock.stream().lasts()) continue;
    ended.may_wait.Update(absl::UnavailableError("a stream is being captured"));
    if (!IsPassed(ended.era)) std::erase(MarksOf(ended.era), mark);
  }
  return ended;
}

void StreamClocks::TakeBackAside() {
  // By number, since others may begin meanwhile.
  for (size_t i = 0; i < all_.size(); ++i) {
    Member& member = *all_[i];
    const Tick aside = member.aside;
    if (aside != 0 && HasPassed(Mark{&member, aside}) && member.aside == aside) member.aside = 0;
  }
}

bool StreamClocks::MayCapture() {
  if (reclaimer_ == nullptr) return false;
  return lock_.DuringDriverCall([this] {
    bool may_capture = true;
    reclaimer_->WithoutCapture([&may_capture] { may_capture = false; });
    return may_capture;
  });
}

bool StreamClocks::HasPassed(const Mark& mark) {
  const absl::StatusOr<bool> passed = mark.member->clock.HasPassed(mark.tick);
  ledger_.failures().Absorb(passed.status());
  return passed.value_or(false);
}

bool StreamClocks::HasPassed(Era era) {
  if (!IsPassed(era) && era >= era_) End();
  while (!IsPassed(era)) {
    const Marks& marks = MarksOf(era);
    if (marks.empty()) {
      Passed(era);
      break;
    }
    const Mark mark = marks.back();
    if (!HasPassed(mark)) return false;
    if (!IsPassed(era)) std::erase(MarksOf(era), mark);
  }
  return true;
}

bool StreamClocks::HasOutstanding(Era era) {
  if (IsPassed(era)) return false;
  for (const Mark& mark : Marks(MarksOf(era))) HasPassed(mark);
  if (IsPassed(era)) return false;
  Marks& marks = MarksOf(era);
  std::erase_if(marks, [](const Mark& mark) { return mark.member->clock.IsPassed(mark.tick); });
  return !marks.empty();
}

bool StreamClocks::NeedsHost(Era era) {
  if (!HasOutstanding(era)) return false;
  const Marks& marks = MarksOf(era);
  return std::all_of(marks.begin(), marks.end(), [](const Mark& mark) {
    const StreamClock& clock = mark.member->clock;
    return clock.fails() || (!clock.stream().lasts() && !clock.IsEnded(mark.tick));
  });
}

void StreamClocks::SetAside(Era era) {
  if (!HasOutstanding(era)) return;
  for (const Mark& mark : MarksOf(era)) mark.member->aside = mark.tick;
  for (Marks& marks : ended_) std::erase_if(marks, [](const Mark& mark) { return mark.member->aside != 0; });
}

bool StreamClocks::TryWaitForAll() {
  ledger_.HostWaited();
  return WaitForDevice().ok();
}

absl::Status StreamClocks::WaitForAll() {
  ledger_.HostWaited();
  absl::Status waited = WaitForDevice();
  if (waited.ok()) return waited;
  for (size_t i = 0; i < all_.size(); ++i) {
    StreamClock& clock = all_[i]->clock;
    ledger_.failures().Absorb(clock.Synchronize(clock.last_ended()));
  }
  return absl::IsUnknown(waited) ? waited : absl::UnavailableError(waited.message());
}

absl::Status StreamClocks::WaitForDevice() {
  // All are asked whether they are being captured.
  for (const std::unique_ptr<Member>& member : all_) member->aside = 0;
  if (absl::Status may_wait = EndEra().may_wait; !may_wait.ok()) return may_wait;
  // What the device is told while the host waits is not waited for.
  const Era era = era_ - 1;
  const std::vector<Member*> gone = gone_;
  Marks closed;
  for (const std::unique_ptr<Member>& member : all_) closed.push_back({member.get(), member->clock.Close()});
  if (absl::Status waited = SynchronizeAll(); !waited.ok()) return waited;
  for (const auto& [member, tick] : closed) {
    const bool can_be_asked = member->clock.stream().lasts() && !member->clock.fails();
    member->clock.Settle(tick);
    if (!can_be_asked) member->aside = member->clock.now();
  }
  for (Member* member : gone) {
    if (std::erase(gone_, member) > 0) unused_.push_back(member);
  }
  if (!IsPassed(era)) Passed(era);
  return absl::OkStatus();
}

bool StreamClocks::NeedsHost() const {
  return std::any_of(all_.begin(), all_.end(), [](const std::unique_ptr<Member>& member) {
    return !member->clock.stream().lasts() || member->clock.fails();
  });
}

bool StreamClocks::IsQuiet() {
  if (!EndEra().may_wait.ok()) return false;
  for (size_t i = 0; i < all_.size(); ++i) {
    const StreamClock& clock = all_[i]->clock;
    if (!clock.stream().lasts() || clock.fails()) continue;
    if (!HasPassed(Mark{all_[i].get(), clock.last_ended()})) return false;
  }
  return true;
}

absl::Status StreamClocks::SynchronizeAll() {
  absl::Status status;
  // Once more if it fails, since what failed may have been earlier work of the program's.
  for (int attempt = 0; attempt < 2; ++attempt) {
    status = lock_.DuringDriverCall([this] {
      absl::Status waited = absl::UnavailableError("a stream is perhaps being captured");
      const auto wait = [&] { waited = device_.SynchronizeAll(); };
      reclaimer_ == nullptr ? wait() : reclaimer_->WithoutCapture(wait);
      return waited;
    });
    if (status.ok() || absl::IsUnavailable(status)) return status;
    ledger_.failures().Absorb(status);
  }
  return status;
}

void StreamClocks::Passed(Era era) {
  ended_.erase(ended_.begin(), ended_.begin() + (era - passed_));
  passed_ = era;
}

}  // namespace frugal
