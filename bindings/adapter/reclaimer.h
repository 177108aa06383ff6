// What PyTorch can give back when a GPU is full: memory of exporters to other processes, native's cache, and
// Python's garbage.

#pragma once

#include "allocator/device_allocator.h"
#include "allocator/port/observer.h"
#include "bindings/adapter/native_share.h"
#include "bindings/adapter/routing.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

class TorchReclaimer final : public Reclaimer {
 public:
  // Collects a language's garbage; returns how many objects it found. May take Python's lock.
  using GarbageCollector = int (*)();
  // As Reclaimer::AskNeighbours, of that GPU.
  using Neighbours = bool (*)(c10::DeviceIndex device, Bytes wanted);

  // All must outlive the object.
  TorchReclaimer(c10::DeviceIndex device, DeviceAllocator& allocator, NativeShare& native_share, const Routing& routing)
      : device_(device), allocator_(allocator), native_share_(native_share), routing_(routing) {}

  // For the whole process; null: there is none. Thread-safe.
  static void SetGarbageCollector(GarbageCollector collector);
  // The same.
  static void SetNeighbours(Neighbours neighbours);

  bool HasReleased() const override { return allocator_.HasReleasedPools(); }
  // If the GPU has nothing to do, which may be only at a later call. Never throws.
  bool GiveBackReleased() override;
  bool ReleaseCaches() override;
  bool CollectGarbage() override;
  bool AskNeighbours(Bytes wanted) override;
  void WithoutCapture(absl::FunctionRef<void()> wait) const override { routing_.WithoutCapture(device_, wait); }

 private:
  const c10::DeviceIndex device_;
  DeviceAllocator& allocator_;
  NativeShare& native_share_;
  const Routing& routing_;
};

}  // namespace frugal
