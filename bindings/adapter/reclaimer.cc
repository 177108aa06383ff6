#include "bindings/adapter/reclaimer.h"

#include <atomic>
#include <exception>

namespace frugal {
namespace {

std::atomic<TorchReclaimer::GarbageCollector> garbage_collector{nullptr};

// What others registered with PyTorch to be asked before memory runs out.
bool RunFreeMemoryCallbacks() {
  bool freed = false;
  for (const std::string& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
    freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
  }
  return freed;
}

}  // namespace

void TorchReclaimer::SetGarbageCollector(GarbageCollector collector) { garbage_collector.store(collector); }

bool TorchReclaimer::ReleaseCaches() {
  // The policy knows no exceptions; what goes wrong here is that nothing came back.
  try {
    bool freed = RunFreeMemoryCallbacks();
    // While a graph may be captured, native must not free: that ends the capture with an error.
    routing_.WithoutOpenPool(device_, [&] {
      if (!native_share_.native().initialized()) return;
      const Bytes before = native_share_.Reserved();
      native_share_.native().emptyCache(kDefaultPool);
      native_share_.NoteReserved();
      freed |= native_share_.Reserved() < before;
    });
    return freed;
  } catch (const std::exception& error) {
    TORCH_WARN("frugal_alloc: memory could not be given back: ", error.what());
    return false;
  }
}

bool TorchReclaimer::CollectGarbage() {
  // A finaliser that allocates may run out of memory, too; it must not start another collection.
  static thread_local bool collecting = false;
  GarbageCollector collector = garbage_collector.load();
  if (collector == nullptr || collecting) return false;
  collecting = true;
  const int found = collector();
  collecting = false;
  return found > 0;
}

}  // namespace frugal
