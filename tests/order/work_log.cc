#include "tests/order/work_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace frugal {

void WorkLog::Add(Uses& uses, const Uses& more) {
  if (uses.size() < more.size()) uses.resize(more.size());
  for (size_t use = 0; use < more.size(); ++use) {
    if (more[use]) uses[use] = true;
  }
}

WorkLog::Uses WorkLog::Before(std::optional<Stream> who) const {
  // Whatever is enqueued begins after what the host knew then.
  Uses before = host_.has_value() ? before_[*host_] : Uses();
  if (!who.has_value()) return before;
  if (const auto last = last_.find(*who); last != last_.end()) Add(before, before_[last->second]);
  return before;
}

Moment WorkLog::Happened(std::optional<Stream> who, Uses before) {
  before_.push_back(std::move(before));
  who_.push_back(who);
  const Moment moment = before_.size() - 1;
  if (who.has_value()) {
    last_[*who] = moment;
  } else {
    host_ = moment;
  }
  return moment;
}

Moment WorkLog::Use(Stream stream, Address start, Bytes size, bool writes) {
  const size_t use = uses_.size();
  const Uses before = Before(stream);
  Uses with_it = before;
  with_it.resize(use + 1);
  with_it[use] = true;
  const Moment moment = Happened(stream, std::move(with_it));
  uses_.push_back(moment);
  auto view = views_.upper_bound(start);
  if (view != views_.begin()) --view;
  for (; view != views_.end() && view->first < start + size; ++view) {
    const Address begin = std::max(start, view->first);
    const Address end = std::min(start + size, view->first + view->second.size);
    if (begin >= end) continue;
    view->second.uses.push_back(use);
    const Touch touch{use, (begin - view->first).count(), (end - view->first).count(), writes};
    Enter(use, touch, view->second.physical, before, moment);
  }
  return moment;
}

void WorkLog::Enter(size_t use, const Touch& touch, uint64_t physical, const Uses& before, Moment moment) {
  std::vector<Touch>& touches = touches_[physical];
  for (const Touch& earlier : touches) {
    const bool same_byte = earlier.begin < touch.end && touch.begin < earlier.end;
    if (earlier.use == use || !same_byte || (!earlier.writes && !touch.writes)) continue;
    after_[moment].push_back(earlier.use);
    if (!Has(before, earlier.use)) unordered_.insert(moment);
  }
  touches.push_back(touch);
}

Moment WorkLog::Unmap(Address start, Bytes size) {
  const Uses before = Before(std::nullopt);
  const Moment moment = Happened(std::nullopt, before);
  auto view = views_.lower_bound(start);
  while (view != views_.end() && view->first < start + size) {
    for (const size_t use : view->second.uses) {
      after_[moment].push_back(use);
      if (!Has(before, use)) unordered_.insert(moment);
    }
    view = views_.erase(view);
  }
  return moment;
}

void WorkLog::Record(Stream stream, Event event) { events_[event.id] = Happened(stream, Before(stream)); }

void WorkLog::Wait(Stream stream, Event event) {
  Uses before = Before(stream);
  Add(before, before_[events_.at(event.id)]);
  Happened(stream, std::move(before));
}

void WorkLog::HostSees(Event event) {
  Uses before = Before(std::nullopt);
  Add(before, before_[events_.at(event.id)]);
  Happened(std::nullopt, std::move(before));
}

void WorkLog::HostSeesAll() { Happened(std::nullopt, Uses(uses_.size(), true)); }

WorkLog::Excuse WorkLog::ExcuseFor(Event event, std::optional<Stream> asker, Moment moment) const {
  Uses at_stake = before_[events_.at(event.id)];
  for (Moment known = 0; known < moment; ++known) {
    if (who_[known].has_value() && who_[known] != asker) continue;
    for (size_t use = 0; use < at_stake.size(); ++use) {
      if (Has(before_[known], use)) at_stake[use] = false;
    }
  }
  if (std::none_of(at_stake.begin(), at_stake.end(), [](bool is_at_stake) { return is_at_stake; })) {
    return Excuse::kNothingBefore;
  }
  return IsTouchedAfter(moment, at_stake) ? Excuse::kOrderedByOther : Excuse::kNotUsedAgain;
}

bool WorkLog::IsTouchedAfter(Moment moment, const Uses& uses) const {
  return std::any_of(after_.lower_bound(moment), after_.end(), [&](const auto& later) {
    return std::any_of(later.second.begin(), later.second.end(), [&](size_t use) { return Has(uses, use); });
  });
}

}  // namespace frugal
