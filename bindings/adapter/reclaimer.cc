#include "bindings/adapter/reclaimer.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <exception>

#include "bindings/adapter/pool_streams.h"

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

// Whether the GPU has nothing to do, as far as its streams can be named, and none of them is captured. Nobody waits: to
// do so could be for ever, where a collective waits for a process that waits for this one.
bool IsIdle(c10::DeviceIndex device, DeviceAllocator& allocator) {
  const cudaStream_t current = c10::cuda::getCurrentCUDAStream(device).stream();
  return !IsCaptured(current) && allocator.IsIdle() && !HasBusyStreamInPool(device);
}

}  // namespace

void TorchReclaimer::SetGarbageCollector(GarbageCollector collector) { garbage_collector.store(collector); }

void TorchReclaimer::SetNeighbours(Neighbours neighbours) { ask_neighbours.store(neighbours); }

bool TorchReclaimer::GiveBackReleased() {
  if (!allocator_.HasReleasedPools()) return false;
  try {
    if (!IsIdle(device_, allocator_)) return false;
    const c10::cuda::CUDAGuard guard(device_);
    // Where the driver fails, it stays for now.
    return allocator_.ReturnReleased().value_or(Bytes(0)) > Bytes(0);
  } catch (const std::exception& error) {
    TORCH_WARN("frugal_alloc: memory of a pool that nobody holds could not be given back: ", error.what());
    return false;
  }
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
