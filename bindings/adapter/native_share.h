// What PyTorch's native allocator holds of one GPU beside us, and how a limit on memory is shared with it.

#pragma once

#include <atomic>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/device.h"
#include "allocator/port/shared_limit.h"
#include "allocator/port/units.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

// Native holds what is older than enable(), and what it serves in our place, when ours only falls. A limit is for both
// together: what native holds is counted in ours, and native is told what ours leaves it.
//
// Thread-safety: any thread.
class NativeShare {
 public:
  // `limit`, where our own memory is counted, too, must outlive this.
  NativeShare(c10::DeviceIndex device, caching::CUDAAllocator& native, SharedLimit& limit)
      : device_(device), native_(native), limit_(limit) {}

  caching::CUDAAllocator& native() const { return native_; }
  DeviceStats Stats() const;
  Bytes Reserved() const { return Bytes(Stats().reserved_bytes[0].current); }

  // Both may hold `most` of the device's `total` together; kUnlimited: no limit. Native goes back to `fraction`, which
  // PyTorch was told, until it is asked for memory.
  void SetLimit(double fraction, Bytes most, Bytes total) ABSL_LOCKS_EXCLUDED(mutex_);
  bool has_limit() const { return has_limit_.load(std::memory_order_relaxed); }

  // Native has perhaps taken or given back memory: counts what it holds, if there is a limit.
  void NoteReserved() ABSL_LOCKS_EXCLUDED(mutex_);

  // Native is about to be asked for memory: tells it what the limit leaves it, if there is one. `device`, where it is
  // given: and no more than is free there, which the driver would not keep to by itself.
  void TellNative(std::optional<MemoryInfo> device) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void SetFraction(double fraction) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const c10::DeviceIndex device_;
  caching::CUDAAllocator& native_;
  SharedLimit& limit_;
  std::atomic<bool> has_limit_{false};
  // Held for no call that takes a lock of native's: whoever holds that may free memory of ours.
  absl::Mutex mutex_;
  Bytes total_ ABSL_GUARDED_BY(mutex_);
  Bytes counted_ ABSL_GUARDED_BY(mutex_);  // for native in limit_
  // The latest that native was told, as asking the device for its size at each call would be slow.
  double fraction_ ABSL_GUARDED_BY(mutex_) = 1.0;
};

// How much memory native takes from the device to serve a request of `size`.
Bytes NativeSegmentSize(Bytes size);

}  // namespace frugal
