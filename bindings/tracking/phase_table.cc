#include "bindings/tracking/phase_table.h"

#include <cstddef>

namespace frugal {

PhaseTable::PhaseTable() { static_cast<void>(Find("")); }

PhaseId PhaseTable::Find(absl::string_view name) {
  absl::MutexLock lock(&mutex_);
  const auto [found, is_new] = by_name_.try_emplace(name, static_cast<PhaseId>(phases_.size()));
  if (is_new) phases_.push_back({found->first});
  return found->second;
}

bool PhaseTable::Has(PhaseId phase) const {
  absl::MutexLock lock(&mutex_);
  return static_cast<size_t>(phase) < phases_.size();
}

const std::string& PhaseTable::NameOf(PhaseId phase) const {
  absl::MutexLock lock(&mutex_);
  return phases_.at(static_cast<size_t>(phase)).name;
}

void PhaseTable::ExpectGrowth(PhaseId phase) {
  absl::MutexLock lock(&mutex_);
  phases_.at(static_cast<size_t>(phase)).expected_to_grow = true;
}

bool PhaseTable::IsExpectedToGrow(PhaseId phase) const {
  absl::MutexLock lock(&mutex_);
  return phases_.at(static_cast<size_t>(phase)).expected_to_grow;
}

}  // namespace frugal
