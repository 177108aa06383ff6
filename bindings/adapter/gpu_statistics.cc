#include "bindings/adapter/gpu_statistics.h"

namespace frugal {

DeviceStats GpuStatistics::Together() {
  DeviceStats stats = native_share_.Stats();
  stats.num_ooms -= forgotten_ooms_.load(std::memory_order_relaxed);
  stats.num_sync_all_streams -= forgotten_waits_.load(std::memory_order_relaxed);
  AddStats(stats, ToDeviceStats(allocator_.GetStatistics()));
  absl::MutexLock lock(&mutex_);
  periods_.Raise(stats);
  return stats;
}

DeviceStats GpuStatistics::Ours() {
  DeviceStats stats = ToDeviceStats(allocator_.GetStatistics());
  absl::MutexLock lock(&mutex_);
  own_periods_.Raise(stats);
  return stats;
}

void GpuStatistics::ResetPeaks() {
  native_share_.native().resetPeakStats(ordinal_);
  allocator_.ResetPeakStatistics();
  absl::MutexLock lock(&mutex_);
  periods_.Forget();
  own_periods_.Forget();
}

void GpuStatistics::ResetAccumulated() {
  native_share_.native().resetAccumulatedStats(ordinal_);
  allocator_.ResetAccumulatedStatistics();
  forgotten_ooms_.store(0, std::memory_order_relaxed);
  forgotten_waits_.store(0, std::memory_order_relaxed);
}

void GpuStatistics::BeginPeriod() {
  const DeviceStats both = Together();
  const DeviceStats own = Ours();
  caching::CUDAAllocator& native = native_share_.native();
  if (native.initialized()) native.resetPeakStats(ordinal_);
  allocator_.ResetPeakStatistics();
  absl::MutexLock lock(&mutex_);
  periods_.Close(both);
  own_periods_.Close(own);
}

}  // namespace frugal
