// What PyTorch can give back when a GPU is full: memory of exporters to other processes, native's cache, and
// Python's garbage.

#ifndef FRUGAL_BINDINGS_ADAPTER_RECLAIMER_H_
#define FRUGAL_BINDINGS_ADAPTER_RECLAIMER_H_

#include "allocator/port/observer.h"
#include "bindings/adapter/native_share.h"
#include "bindings/adapter/routing.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

class TorchReclaimer final : public Reclaimer {
 public:
  // Collects a language's garbage; returns how many objects it found. May take Python's lock.
  using GarbageCollector = int (*)();

  TorchReclaimer(c10::DeviceIndex device, NativeShare& native_share, const Routing& routing)
      : device_(device), native_share_(native_share), routing_(routing) {}

  // For the whole process; null: there is none. Thread-safe.
  static void SetGarbageCollector(GarbageCollector collector);

  bool ReleaseCaches() override;
  bool CollectGarbage() override;
  // Unless a pool is open on this GPU, as one is while a graph is captured.
  void WithoutCapture(absl::FunctionRef<void()> wait) const override { routing_.WithoutOpenPool(device_, wait); }

 private:
  const c10::DeviceIndex device_;
  NativeShare& native_share_;
  const Routing& routing_;
};

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_ADAPTER_RECLAIMER_H_
