#include "simulated_gpu/exports/observer.h"

#include <atomic>
#include <cstdint>

#include "simulated_gpu/machine/control.h"

namespace frugal::sim {
namespace {

using Observer = void (*)(int kind, uint64_t address, int64_t bytes);

std::atomic<Observer> the_observer{nullptr};

}  // namespace

void Tell(Observed what, const void* start, size_t size) {
  const Observer observer = the_observer.load(std::memory_order_acquire);
  if (observer == nullptr || start == nullptr || size == 0) return;
  observer(static_cast<int>(what), reinterpret_cast<uintptr_t>(start), static_cast<int64_t>(size));
}

}  // namespace frugal::sim

void frugal_sim_set_observer(void (*observer)(int kind, uint64_t address, int64_t bytes)) {
  frugal::sim::the_observer.store(observer, std::memory_order_release);
}

void frugal_sim_note_workspace(const void* start, uint64_t bytes) {
  frugal::sim::Tell(frugal::sim::Observed::kWorkspace, start, bytes);
}
