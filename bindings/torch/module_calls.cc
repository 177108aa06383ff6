#include "bindings/torch/module_calls.h"

namespace frugal {
namespace {

// Held while a call is counted. Who finds it taken does not wait: one call of two threads' at once is left out.
std::atomic_flag is_busy;
std::atomic<int64_t> calls_to_window{1};
int64_t calls_in_window = 0;  // guarded by is_busy

// Of who listens. A listener that is scheduled must stay callable.
std::atomic<int (*)(int (*)(void*), void*)> schedule_listener{nullptr};
std::atomic<int (*)(void*)> listener{nullptr};
std::atomic<bool> is_scheduled{false};

int CallListener(void* argument) {
  is_scheduled.store(false, std::memory_order_release);
  int (*const call)(void*) = listener.load(std::memory_order_acquire);
  return call == nullptr ? 0 : call(argument);
}

void ScheduleListener() {
  int (*const schedule)(int (*)(void*), void*) = schedule_listener.load(std::memory_order_acquire);
  if (schedule == nullptr || is_scheduled.exchange(true, std::memory_order_acq_rel)) return;
  // There may be no room for one more: the next end of an epoch tries again.
  if (schedule(CallListener, nullptr) != 0) is_scheduled.store(false, std::memory_order_release);
}

void EndEpoch(const ModuleCalls::Epochs& epochs) {
  if (epochs.end() < ModuleCalls::kMostWindows) return;
  epochs.halve();
  calls_to_window.store(calls_to_window.load(std::memory_order_relaxed) * 2, std::memory_order_relaxed);
}

}  // namespace

std::atomic<const ModuleCalls::Epochs*> ModuleCalls::epochs_{nullptr};

void ModuleCalls::SetOn(const Epochs* epochs) {
  if (epochs != nullptr) calls_to_window.store(1, std::memory_order_relaxed);
  epochs_.store(epochs, std::memory_order_relaxed);
}

void ModuleCalls::SetListener(int (*schedule)(int (*call)(void*), void*), int (*call)(void*)) {
  schedule_listener.store(nullptr, std::memory_order_release);
  listener.store(call, std::memory_order_release);
  schedule_listener.store(schedule, std::memory_order_release);
}

int64_t ModuleCalls::window() {
  return epochs_.load(std::memory_order_relaxed) != nullptr ? calls_to_window.load(std::memory_order_relaxed) : 0;
}

void ModuleCalls::Count() {
  const Epochs* const epochs = epochs_.load(std::memory_order_relaxed);
  if (epochs == nullptr || is_busy.test_and_set(std::memory_order_acquire)) return;
  if (++calls_in_window >= calls_to_window.load(std::memory_order_relaxed)) {
    calls_in_window = 0;
    EndEpoch(*epochs);
    ScheduleListener();
  }
  is_busy.clear(std::memory_order_release);
}

}  // namespace frugal
