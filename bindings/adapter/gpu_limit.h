// The most memory that this process may hold on a GPU.

#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/units.h"
#include "bindings/adapter/native_share.h"
#include "bindings/settings/settings.h"
#include "cuda/driver_device.h"

namespace frugal {

// Two limits can be set: a fraction of the GPU, as PyTorch has it, and our own setting. The smaller one holds, for our
// memory and native's together. Thread-safety: any thread.
class GpuLimit {
 public:
  // Both must outlive the object.
  GpuLimit(DriverDevice& device, NativeShare& native_share) : device_(device), native_share_(native_share) {}

  // An error, of the driver that is asked for the GPU's size, changes nothing.
  absl::Status SetFraction(double fraction);
  absl::Status Set(const MemoryLimitSetting& limit);
  // As PyTorch has it; native is told less.
  double Fraction();
  // What set the limit that holds, for people.
  const char* Name();
  // Native is about to be asked for memory.
  void TellNative();

 private:
  absl::Status Update() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DriverDevice& device_;
  NativeShare& native_share_;

  absl::Mutex mutex_;
  double fraction_ ABSL_GUARDED_BY(mutex_) = 1.0;
  MemoryLimitSetting setting_ ABSL_GUARDED_BY(mutex_);
  bool fraction_holds_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace frugal
