// What torch.cuda.memory_stats reports of a GPU while both we and native hold memory of it.

#pragma once

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/device_allocator.h"
#include "bindings/adapter/device_stats.h"
#include "bindings/adapter/native_share.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

// Thread-safety: any thread.
class GpuStatistics {
 public:
  // All must outlive the object.
  GpuStatistics(c10::DeviceIndex ordinal, NativeShare& native_share, DeviceAllocator& allocator)
      : ordinal_(ordinal), native_share_(native_share), allocator_(allocator) {}

  // Ours and native's.
  DeviceStats Together();
  // Ours alone, with the peaks of all periods.
  DeviceStats Ours();
  void ResetPeaks();
  void ResetAccumulated();
  // Memory changes hands between native and us: see PeakPeriods.
  void BeginPeriod();
  // One of us ran out of memory, but the request is served in another way: no error was seen.
  void ForgetOutOfMemory() { forgotten_ooms_.fetch_add(1, std::memory_order_relaxed); }
  // For one call of the program both of us waited for all streams, which counts once.
  void ForgetHostWait() { forgotten_waits_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const c10::DeviceIndex ordinal_;
  NativeShare& native_share_;
  DeviceAllocator& allocator_;
  std::atomic<int64_t> forgotten_ooms_{0};
  std::atomic<int64_t> forgotten_waits_{0};

  absl::Mutex mutex_;
  PeakPeriods periods_ ABSL_GUARDED_BY(mutex_);
  PeakPeriods own_periods_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal
