#include "allocator/allocator_settings.h"

#include "absl/synchronization/mutex.h"

namespace frugal {

SharedLimit& AllocatorSettings::limit() { return state_.shared_limit; }

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
  // Ends when the one before has been told all.
  const ObserverQueue::Call call(state_.observers);
  absl::MutexLock lock(&state_.mutex);
  state_.SetObserver(observer);
}

void AllocatorSettings::SetCheckLevel(CheckLevel level) {
  absl::MutexLock lock(&state_.mutex);
  state_.check_level = level;
}

}  // namespace frugal
