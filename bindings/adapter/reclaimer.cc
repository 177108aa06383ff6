#include "bindings/adapter/reclaimer.h"

#include <atomic>
#include <exception>

namespace frugal {
namespace {

std::atomic<TorchReclaimer::GarbageCollector> garbage_collector{nullptr};
std::atomic<TorchReclaimer::Neighbours> ask_neighbours{nullptr};

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

void TorchReclaimer::SetNeighbours(Neighbours neighbours) { ask_neighbours.store(neighbours); }

bool TorchReclaimer::GiveBackReleased() {
  if (!pools_.GiveBack(device_, allocator_)) return false;
  native_share_.NoteReserved();
  return true;
}

bool TorchReclaimer::ReleaseCaches() {
  // The policy knows no exceptions; what goes wrong here is that nothing came back.
  try {
    bool freed = RunFreeMemoryCallbacks();
    // While a graph may be captured, native must not free: that ends the capture with an error.
    routing_.WithoutCapture(device_, [&] {
      if (!native_share_.native().initialized()) return;
      const Bytes before = native_share_.Reserved();
      native_share_.native().emptyCache(kDefaultPool);
      native_share_.NoteReserved();
      pools_.NoteFreed();
      freed |= native_share_.Reserved() < before;
    });
    return freed;
  } catch (const std::exception& error) {
    TORCH_WARN("frugal_alloc: memory could not be given back: ", error.what());
    return false;
  }
}

bool TorchReclaimer::AskNeighbours(Bytes wanted) {
  const Neighbours ask = ask_neighbours.load();
  try {
    return ask != nullptr && ask(device_, wanted);
  } catch (const std::exception& error) {
    TORCH_WARN("frugal_alloc: other processes could not be asked for memory: ", error.what());
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
