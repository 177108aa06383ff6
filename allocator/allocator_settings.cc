#include "allocator/allocator_settings.h"

#include "absl/synchronization/mutex.h"

namespace frugal {

void AllocatorSettings::SetLimit(Bytes limit, Bytes (*others)(void* context), void* context) {
  absl::MutexLock growth(&state_.growth_mutex);
  absl::MutexLock lock(&state_.mutex);
  state_.memory_limit.SetLimit(limit, others, context);
}

Bytes AllocatorSettings::Limit() const {
  absl::MutexLock lock(&state_.mutex);
  return state_.memory_limit.limit();
}

void AllocatorSettings::SetDriverCosts(const DriverCosts& costs) {
  absl::MutexLock growth(&state_.growth_mutex);
  absl::MutexLock lock(&state_.mutex);
  state_.backing->SetDriverCosts(costs);
}

void AllocatorSettings::SetDriverReserve(Bytes reserve) {
  absl::MutexLock growth(&state_.growth_mutex);
  absl::MutexLock lock(&state_.mutex);
  state_.memory_limit.SetReserve(reserve);
}

void AllocatorSettings::SetOptions(const PolicyOptions& options) {
  absl::MutexLock growth(&state_.growth_mutex);
  absl::MutexLock lock(&state_.mutex);
  state_.backing->SetOptions(options);
}

void AllocatorSettings::SetRemapping(bool on) {
  absl::MutexLock growth(&state_.growth_mutex);
  absl::MutexLock lock(&state_.mutex);
  state_.backing->SetRemapping(on);
}

void AllocatorSettings::SetObserver(Observer* observer) {
  absl::MutexLock lock(&state_.mutex);
  state_.ledger.SetObserver(observer);
}

void AllocatorSettings::SetCheckLevel(CheckLevel level) {
  absl::MutexLock lock(&state_.mutex);
  state_.check_level = level;
}

}  // namespace frugal
