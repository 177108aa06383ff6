// What PyTorch's native allocator holds of one GPU beside us, and how a limit on memory is shared with it.

#ifndef FRUGAL_BINDINGS_ADAPTER_NATIVE_SHARE_H_
#define FRUGAL_BINDINGS_ADAPTER_NATIVE_SHARE_H_

#include <atomic>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/device.h"
#include "allocator/port/units.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

// Native holds what is in private pools, what is older than enable(), and what it serves while we are disabled.
// A limit is for both together: we count native's memory against it, and native is told to keep to what we leave.
//
// Thread-safety: any thread.
class NativeShare {
 public:
  NativeShare(c10::DeviceIndex device, caching::CUDAAllocator& native) : device_(device), native_(native) {}

  caching::CUDAAllocator& native() const { return native_; }
  DeviceStats Stats() const;
  Bytes Reserved() const { return Bytes(Stats().reserved_bytes[0].current); }

  // Both may hold `limit` of the device's `total` together; kUnlimited: no limit. Native goes back to `fraction`, which
  // PyTorch was told, until it is left less.
  void SetLimit(double fraction, Bytes limit, Bytes total) ABSL_LOCKS_EXCLUDED(mutex_);
  bool has_limit() const { return has_limit_.load(std::memory_order_relaxed); }

  // Native has perhaps taken or given back memory: notes how much it holds, if there is a limit.
  void NoteReserved();
  // What was noted last, of a NativeShare. Takes no lock: the policy asks with its own held.
  static Bytes ReadNoted(void* share);

  // We hold `ours`: native may take the rest of the limit, if there is one. `device`, where it is given: and no more
  // than is free there, which the driver would not keep to by itself.
  void LeaveRoomBeside(Bytes ours, std::optional<MemoryInfo> device) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void TellNative(double fraction) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const c10::DeviceIndex device_;
  caching::CUDAAllocator& native_;
  std::atomic<bool> has_limit_{false};
  std::atomic<int64_t> noted_bytes_{0};

  absl::Mutex mutex_;
  Bytes limit_ ABSL_GUARDED_BY(mutex_);
  Bytes total_ ABSL_GUARDED_BY(mutex_);
  // The latest that native was told, as asking the device for its size at each call would be slow.
  double natives_fraction_ ABSL_GUARDED_BY(mutex_) = 1.0;
};

// How much memory native takes from the device to serve a request of `size`.
Bytes NativeSegmentSize(Bytes size);

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_ADAPTER_NATIVE_SHARE_H_
