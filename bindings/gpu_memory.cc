#include "bindings/gpu_memory.h"

#include <algorithm>
#include <limits>

namespace frugal {
namespace {

Bytes ReadNativeReserved(void* context) {
  return Bytes(static_cast<std::atomic<int64_t>*>(context)->load(std::memory_order_relaxed));
}

}  // namespace

GpuMemory::GpuMemory(c10::DeviceIndex ordinal, std::unique_ptr<DriverDevice> device, AddressDirectory& directory,
                     caching::CUDAAllocator& native, Routing& routing, History& history)
    : ordinal_(ordinal),
      native_(native),
      device_(std::move(device)),
      reclaimer_(ordinal, native, routing),
      history_(history, ordinal),
      allocator_(*device_, directory, &reclaimer_) {}

DeviceStats GpuMemory::NativeStats() const {
  return native_.initialized() ? native_.getDeviceStats(ordinal_) : DeviceStats();
}

absl::Status GpuMemory::SetMemoryFraction(double fraction) {
  has_limit_.store(fraction < 1.0, std::memory_order_relaxed);
  if (fraction >= 1.0) {
    allocator_.SetLimit(Bytes(std::numeric_limits<int64_t>::max()), nullptr, nullptr);
    return absl::OkStatus();
  }
  absl::StatusOr<MemoryInfo> memory = device_->GetMemoryInfo();
  if (!memory.ok()) return memory.status();
  NoteNativeReserved();
  const Bytes limit(static_cast<int64_t>(fraction * static_cast<double>(memory->total.count())));
  allocator_.SetLimit(limit, &ReadNativeReserved, &native_reserved_);
  return absl::OkStatus();
}

void GpuMemory::NoteNativeReserved() {
  if (has_limit()) native_reserved_.store(NativeStats().reserved_bytes[0].current, std::memory_order_relaxed);
}

DeviceStats GpuMemory::GetStats() {
  DeviceStats stats = NativeStats();
  stats.num_ooms -= forgotten_ooms_.load(std::memory_order_relaxed);
  AddStats(stats, ToDeviceStats(allocator_.GetStatistics()));
  absl::MutexLock lock(&phases_mutex_);
  phases_.Raise(stats);
  return stats;
}

DeviceStats GpuMemory::GetOwnStats() {
  DeviceStats stats = ToDeviceStats(allocator_.GetStatistics());
  absl::MutexLock lock(&phases_mutex_);
  own_phases_.Raise(stats);
  return stats;
}

void GpuMemory::ResetPeakStats() {
  native_.resetPeakStats(ordinal_);
  allocator_.ResetPeakStatistics();
  absl::MutexLock lock(&phases_mutex_);
  phases_.Forget();
  own_phases_.Forget();
}

void GpuMemory::BeginPhase() {
  const DeviceStats both = GetStats();
  const DeviceStats own = GetOwnStats();
  if (native_.initialized()) native_.resetPeakStats(ordinal_);
  allocator_.ResetPeakStatistics();
  absl::MutexLock lock(&phases_mutex_);
  phases_.Close(both);
  own_phases_.Close(own);
}

GpuMemory& GpuSet::Open(c10::DeviceIndex ordinal) {
  absl::MutexLock lock(&mutex_);
  if (GpuMemory* opened = Find(ordinal); opened != nullptr) return *opened;
  absl::StatusOr<std::unique_ptr<DriverDevice>> device = DriverDevice::Open(ordinal);
  TORCH_CHECK(device.ok(), "frugal_alloc: ", device.status().message());
  for (const auto& [from, accessed] : peers_) {
    if (accessed != ordinal) continue;
    const absl::Status status = (*device)->AllowPeer(from);
    TORCH_CHECK(status.ok(), "frugal_alloc: ", status.message());
  }
  auto gpu = std::make_unique<GpuMemory>(ordinal, *std::move(device), directory_, native_, routing_, history_);
  const absl::Status status = gpu->SetMemoryFraction(native_.initialized() ? native_.getMemoryFraction(ordinal) : 1.0);
  TORCH_CHECK(status.ok(), "frugal_alloc: ", status.message());
  if (history_.has_listened()) gpu->AttachHistory();
  gpu->BeginPhase();

  const int count = count_.load(std::memory_order_relaxed);
  order_[static_cast<size_t>(count)] = ordinal;
  gpus_[static_cast<size_t>(ordinal)].store(gpu.release(), std::memory_order_release);
  count_.store(count + 1, std::memory_order_release);
  return *Find(ordinal);
}

void GpuSet::AllowPeer(c10::DeviceIndex device, c10::DeviceIndex accessed) {
  absl::MutexLock lock(&mutex_);
  const std::pair<c10::DeviceIndex, c10::DeviceIndex> peer(device, accessed);
  if (std::find(peers_.begin(), peers_.end(), peer) != peers_.end()) return;
  if (GpuMemory* gpu = Find(accessed); gpu != nullptr) {
    const absl::Status status = gpu->device().AllowPeer(device);
    TORCH_CHECK(status.ok(), "frugal_alloc: ", status.message());
  }
  peers_.push_back(peer);
}

void GpuSet::BecomeForkedChild() {
  Renew(mutex_);
  count_.store(0, std::memory_order_relaxed);
  for (std::atomic<GpuMemory*>& gpu : gpus_) gpu.store(nullptr, std::memory_order_relaxed);
  // The parent's ranges may have been in the middle of a change.
  new (&directory_) AddressDirectory;
}

void GpuSet::AttachHistory() {
  // A GPU that is being opened either sees that history has listened, or is in the set by now.
  absl::MutexLock lock(&mutex_);
  ForEach([](GpuMemory& gpu) { gpu.AttachHistory(); });
}

}  // namespace frugal
