#include "simulated_gpu/machine/order_checker.h"

#include <algorithm>
#include <utility>

namespace frugal::sim {
namespace {

int64_t PageOf(int64_t offset) { return offset / kPageSize.count(); }

}  // namespace

uint32_t OrderChecker::AddStream(std::string name) {
  std::lock_guard lock(mutex_);
  streams_.push_back(std::move(name));
  return static_cast<uint32_t>(streams_.size() - 1);
}

void OrderChecker::RenameStream(uint32_t stream, std::string name) {
  std::lock_guard lock(mutex_);
  streams_[stream] = std::move(name);
}

void OrderChecker::HostSees(const VectorClock& clock) {
  std::lock_guard lock(mutex_);
  host_.Join(clock);
}

void OrderChecker::JoinHost(VectorClock& clock) const {
  std::lock_guard lock(mutex_);
  clock.Join(host_);
}

void OrderChecker::Enter(uint32_t stream, VectorClock& clock, std::string_view name,
                         const std::vector<MemoryUse>& uses) {
  std::lock_guard lock(mutex_);
  clock.Join(host_);
  // Raised first, so that the ranges of one operation are ordered with each other.
  const uint64_t operation = clock.at(stream) + 1;
  clock.Raise(stream, operation);
  const uint32_t number = NameOf(name);
  for (const MemoryUse& use : uses) {
    if (use.size <= Bytes(0)) continue;
    ++accesses_;
    EnterRange({stream, operation, number, use.start, use.size, use.writes}, clock, use.must_be_mapped);
  }
}

void OrderChecker::EnterRange(const Access& access, const VectorClock& seen, bool must_be_mapped) {
  const Address end = access.start + access.size;
  auto view = views_.upper_bound(access.start);
  if (view != views_.begin()) --view;
  Bytes entered;
  for (; view != views_.end() && view->first < end; ++view) {
    const Address from = std::max(access.start, view->first);
    const Address to = std::min(end, view->first + view->second.size);
    if (from >= to) continue;
    if (view->second.physical.gpu != kForeign) EnterView(view->second, from - view->first, to - from, access, seen);
    entered += to - from;
  }
  if (!must_be_mapped || entered == access.size) return;
  Tell({access.stream, access.operation, 0, 0},
       Describe(access) + ", where " + std::to_string((access.size - entered).count()) + " bytes are not mapped");
}

void OrderChecker::EnterView(View& view, Bytes into, Bytes size, const Access& access, const VectorClock& seen) {
  AddToFrontier(view.uses, access, seen);
  const int64_t end = view.physical.offset + (into + size).count();
  for (int64_t offset = view.physical.offset + into.count(); offset < end;) {
    const int64_t page_start = PageOf(offset) * kPageSize.count();
    const int64_t until = std::min(end, page_start + kPageSize.count());
    pages_[{view.physical.gpu, PageOf(offset)}].Enter(
        offset - page_start, until - page_start, access, seen,
        [&](const Access& before) { FoundUnordered(before, access, seen); });
    offset = until;
  }
}

void OrderChecker::Map(Address start, Bytes size, Physical physical) {
  if (log_ != nullptr) log_->Map(start, size, physical);
  std::lock_guard lock(mutex_);
  views_.emplace(start, View{size, physical, {}});
}

void OrderChecker::Unmap(Address start, Bytes size) {
  if (log_ != nullptr) log_->Unmap(start, size);
  std::lock_guard lock(mutex_);
  auto view = views_.lower_bound(start);
  while (view != views_.end() && view->first < start + size) {
    for (const Access& use : view->second.uses) {
      if (use.IsSeenBy(host_)) continue;
      Tell({use.stream, use.operation, 0, 0},
           "memory at " + Hex(view->first) +
               " is unmapped although the host has not seen done what uses it: " + Describe(use));
    }
    view = views_.erase(view);
  }
}

void OrderChecker::MayUnmap(Address start) {
  std::lock_guard lock(mutex_);
  const auto view = views_.find(start);
  if (view != views_.end()) view->second.uses.clear();
}

void OrderChecker::GiveBack(Physical physical, Bytes size) {
  std::lock_guard lock(mutex_);
  for (int64_t page = PageOf(physical.offset); page < PageOf(physical.offset + size.count()); ++page) {
    pages_.erase({physical.gpu, page});
  }
}

uint64_t OrderChecker::accesses() const {
  std::lock_guard lock(mutex_);
  return accesses_;
}

uint64_t OrderChecker::violations() const {
  std::lock_guard lock(mutex_);
  return found_.size();
}

std::string OrderChecker::Report() const {
  std::lock_guard lock(mutex_);
  std::string report;
  for (const std::string& line : told_) report += line + "\n";
  if (found_.size() > told_.size()) report += "and " + std::to_string(found_.size() - told_.size()) + " more\n";
  return report;
}

void OrderChecker::FoundUnordered(const Access& before, const Access& after, const VectorClock& seen) {
  const Pair pair{before.stream, before.operation, after.stream, after.operation};
  std::string line = Describe(after) + " without order after " + Describe(before) + ": " + streams_[after.stream] +
                     " has seen " + streams_[before.stream] + " up to operation " +
                     std::to_string(seen.at(before.stream)) + ", the host up to " +
                     std::to_string(host_.at(before.stream));
  Tell(pair, std::move(line));
}

void OrderChecker::Tell(std::string line) {
  std::lock_guard lock(mutex_);
  // No two of them are the same pair, and none is one of operations: their streams' numbers do not exist.
  Tell({UINT32_MAX, ++told_of_late_work_, UINT32_MAX, 0}, std::move(line));
}

void OrderChecker::Tell(const Pair& pair, std::string line) {
  if (!found_.insert(pair).second || told_.size() == kMostTold) return;
  told_.push_back(std::move(line));
}

std::string OrderChecker::Describe(const Access& access) const {
  return "'" + names_[access.name] + "' (operation " + std::to_string(access.operation) + " of " +
         streams_[access.stream] + ") " + (access.writes ? "writes " : "reads ") + std::to_string(access.size.count()) +
         " bytes at " + Hex(access.start);
}

uint32_t OrderChecker::NameOf(std::string_view name) {
  const auto known = name_numbers_.find(name);
  if (known != name_numbers_.end()) return known->second;
  const auto number = static_cast<uint32_t>(names_.size());
  names_.emplace_back(name);
  name_numbers_.emplace(name, number);
  return number;
}

}  // namespace frugal::sim
