#include "simulated_gpu/machine/late_work.h"

#include <algorithm>
#include <iterator>

namespace frugal::sim {
namespace {

std::string Describe(const MemoryUse& use) {
  return (use.writes ? "writes " : "reads ") + std::to_string(use.size.count()) + " bytes at " + Hex(use.start);
}

}  // namespace

void LateWork::Add(Nanoseconds end, std::string stream, std::shared_ptr<const Work> work, bool moves_data) {
  constexpr size_t kManyRemovals = 4096;
  std::lock_guard lock(mutex_);
  if (items_.empty() || mappings_.removals() > kManyRemovals) ForgetMappings();
  items_.emplace(Key(end, next_++), Item{std::move(stream), std::move(work), moves_data, mappings_.now()});
}

void LateWork::RunUntil(Nanoseconds now) {
  // A host function that calls CUDA, which CUDA forbids, finds the work that is due not run.
  if (runner_.load() == std::this_thread::get_id()) return;
  std::lock_guard running(running_);
  runner_ = std::this_thread::get_id();
  while (const auto due = TakeFirst(now)) {
    const Item& item = due->second;
    if (Check(item, due->first.first) && item.moves_data && item.work->run) item.work->run();
  }
  runner_ = std::thread::id();
}

void LateWork::CheckTheRest() {
  while (const auto left = TakeFirst(Nanoseconds::max())) Check(left->second, left->first.first);
}

std::optional<std::pair<LateWork::Key, LateWork::Item>> LateWork::TakeFirst(Nanoseconds now) {
  std::lock_guard lock(mutex_);
  if (items_.empty() || items_.begin()->first.first > now) return std::nullopt;
  auto first = items_.extract(items_.begin());
  return std::pair(first.key(), std::move(first.mapped()));
}

bool LateWork::Check(const Item& item, Nanoseconds end) {
  for (const MemoryUse& use : item.work->uses) {
    if (use.size <= Bytes(0)) continue;
    const std::optional<std::string> happened = mappings_.WhatHappened(use, item.moment);
    if (!happened) continue;
    ++faults_;
    if (on_fault_) {
      on_fault_("'" + item.work->name + "' on " + item.stream + ", which ends at " + std::to_string(end.count()) +
                " ns, " + Describe(use) + ", but " + *happened);
    }
    return false;
  }
  return true;
}

std::optional<Nanoseconds> LateWork::QueueIsFullUntil() const {
  std::lock_guard lock(mutex_);
  if (items_.size() <= kLongestQueue) return std::nullopt;
  return std::next(items_.begin(), static_cast<std::ptrdiff_t>(items_.size() - kLongestQueue - 1))->first.first;
}

size_t LateWork::outstanding() const {
  std::lock_guard lock(mutex_);
  return items_.size();
}

void LateWork::ForgetMappings() {
  uint64_t first = mappings_.now();
  for (const auto& [key, item] : items_) first = std::min(first, item.moment);
  mappings_.ForgetBefore(first);
}

}  // namespace frugal::sim
