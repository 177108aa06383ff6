#include "simulated_gpu/machine/mapping_log.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "simulated_gpu/machine/thread_state.h"

namespace frugal::sim {

std::string Hex(Address address) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof(text), "%#llx", static_cast<unsigned long long>(address.value()));
  return text;
}

namespace {

std::string Who(uint64_t thread, Nanoseconds time) {
  return "by thread " + std::to_string(thread) + " at " + std::to_string(time.count()) + " ns";
}

}  // namespace

void MappingLog::Map(Address start, Bytes size, PhysicalPlace physical) {
  const View view{size, physical, ThisThread().number, clock_.Now()};
  std::lock_guard lock(mutex_);
  views_.insert_or_assign(start, view);
}

void MappingLog::Unmap(Address start, Bytes size) {
  const uint64_t thread = ThisThread().number;
  const Nanoseconds time = clock_.Now();
  std::lock_guard lock(mutex_);
  ++moment_;
  auto view = views_.lower_bound(start);
  while (view != views_.end() && view->first < start + size) {
    removals_.push_back({moment_, view->first, view->second, thread, time});
    view = views_.erase(view);
  }
}

uint64_t MappingLog::now() const {
  std::lock_guard lock(mutex_);
  return moment_;
}

std::optional<std::string> MappingLog::WhatHappened(const MemoryUse& use, uint64_t moment) const {
  std::lock_guard lock(mutex_);
  const auto first = std::upper_bound(removals_.begin(), removals_.end(), moment,
                                      [](uint64_t asked, const Removal& removal) { return asked < removal.moment; });
  for (auto removal = first; removal != removals_.end(); ++removal) {
    if (std::optional<std::string> happened = WhatHappened(use, *removal)) return happened;
  }
  if (!use.must_be_mapped) return std::nullopt;
  const Bytes missing = use.size - Mapped(use);
  if (missing <= Bytes(0)) return std::nullopt;
  return std::to_string(missing.count()) + " bytes of it were never mapped";
}

std::optional<std::string> MappingLog::WhatHappened(const MemoryUse& use, const Removal& removal) const {
  const Address from = std::max(use.start, removal.start);
  const Address to = std::min(use.start + use.size, removal.start + removal.view.size);
  if (from >= to) return std::nullopt;
  // The same memory may lie there again.
  for (auto view = FirstTouching(from); view != views_.end() && view->first < to; ++view) {
    const PhysicalPlace& physical = view->second.physical;
    const int64_t moved = (view->first - removal.start).count();
    if (physical.gpu == removal.view.physical.gpu && physical.offset == removal.view.physical.offset + moved) {
      return std::nullopt;
    }
    return "memory at " + Hex(from) + " is another one, mapped " + Who(view->second.thread, view->second.time);
  }
  return "memory at " + Hex(from) + " was unmapped " + Who(removal.thread, removal.time);
}

size_t MappingLog::removals() const {
  std::lock_guard lock(mutex_);
  return removals_.size();
}

void MappingLog::ForgetBefore(uint64_t moment) {
  std::lock_guard lock(mutex_);
  while (!removals_.empty() && removals_.front().moment <= moment) removals_.pop_front();
}

MappingLog::Views::const_iterator MappingLog::FirstTouching(Address start) const {
  auto view = views_.upper_bound(start);
  if (view != views_.begin() && std::prev(view)->first + std::prev(view)->second.size > start) --view;
  return view;
}

Bytes MappingLog::Mapped(const MemoryUse& use) const {
  Bytes mapped;
  const Address end = use.start + use.size;
  for (auto view = FirstTouching(use.start); view != views_.end() && view->first < end; ++view) {
    mapped += std::min(end, view->first + view->second.size) - std::max(use.start, view->first);
  }
  return mapped;
}

}  // namespace frugal::sim
