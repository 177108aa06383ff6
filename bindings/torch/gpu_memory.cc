#include "bindings/torch/gpu_memory.h"

#include <algorithm>
#include <utility>

#include "bindings/torch/autograd_node.h"
#include "bindings/torch/site_sampler.h"

namespace frugal {

GpuMemory::GpuMemory(c10::DeviceIndex ordinal, std::unique_ptr<DriverDevice> device, AddressDirectory& directory,
                     caching::CUDAAllocator& native, Routing& routing, History& history)
    : ordinal_(ordinal),
      native_share_(ordinal, native),
      device_(std::move(device)),
      reclaimer_(ordinal, native_share_, routing),
      history_(history, ordinal),
      allocator_(*device_, directory, &reclaimer_) {}

absl::Status GpuMemory::SetMemoryFraction(double fraction) {
  absl::MutexLock lock(&limit_mutex_);
  const double before = std::exchange(fraction_, fraction);
  absl::Status status = UpdateLimit();
  if (!status.ok()) fraction_ = before;
  return status;
}

absl::Status GpuMemory::SetMemoryLimit(const MemoryLimitSetting& limit) {
  absl::MutexLock lock(&limit_mutex_);
  const MemoryLimitSetting before = std::exchange(memory_limit_, limit);
  absl::Status status = UpdateLimit();
  if (!status.ok()) memory_limit_ = before;
  return status;
}

double GpuMemory::MemoryFraction() {
  absl::MutexLock lock(&limit_mutex_);
  return fraction_;
}

const char* GpuMemory::LimitName() {
  absl::MutexLock lock(&limit_mutex_);
  return fraction_holds_ ? "torch.cuda.set_per_process_memory_fraction" : "frugal_alloc's memory_limit";
}

absl::Status GpuMemory::UpdateLimit() {
  if (fraction_ >= 1.0 && !memory_limit_.exists()) {
    native_share_.SetLimit(fraction_, kUnlimited, kUnlimited);
    allocator_.settings().SetLimit(kUnlimited, nullptr, nullptr);
    return absl::OkStatus();
  }
  absl::StatusOr<MemoryInfo> memory = device_->GetMemoryInfo();
  // Once more, since what failed may have been earlier work of the program's.
  if (!memory.ok()) memory = device_->GetMemoryInfo();
  if (!memory.ok()) return memory.status();
  const Bytes pytorchs = MemoryLimitSetting::Part(fraction_).On(memory->total);
  const Bytes ours = memory_limit_.On(memory->total);
  fraction_holds_ = pytorchs <= ours;
  const Bytes limit = std::min(pytorchs, ours);
  native_share_.SetLimit(fraction_, limit, memory->total);
  allocator_.settings().SetLimit(limit, &NativeShare::ReadNoted, &native_share_);
  return absl::OkStatus();
}

void GpuMemory::LeaveNativeTheRest() {
  if (!native_share_.has_limit() && device_->unified() == nullptr) return;
  std::optional<MemoryInfo> shared;
  if (device_->unified() != nullptr) {
    // A driver that has the host's memory gives it away until the host stands still (pytorch#174358).
    const absl::StatusOr<MemoryInfo> memory = device_->GetMemoryInfo();
    // What native was told last stays.
    if (!memory.ok()) return;
    shared = *memory;
  }
  native_share_.LeaveRoomBeside(Bytes(allocator_.GetStatistics().reserved_bytes[SizeGroup::kAll].current), shared);
}

Bytes GpuMemory::Trim(Bytes enough) {
  const absl::StatusOr<Bytes> trimmed = allocator_.Trim(enough);
  if (trimmed.ok()) return *trimmed;
  if (!absl::IsDataLoss(trimmed.status())) {
    TORCH_WARN("frugal_alloc still holds idle memory of GPU ", static_cast<int>(ordinal_),
               ", since the driver did not take it back: ", trimmed.status().message());
  }
  return Bytes(0);
}

std::optional<Bytes> GpuMemory::RoomAtPeak() {
  const absl::StatusOr<MemoryInfo> memory = device_->GetMemoryInfo();
  if (!memory.ok()) return std::nullopt;
  const Statistics ours = allocator_.GetStatistics();
  const Bytes natives = native_share_.Reserved();
  // All but what others hold.
  const Bytes pytorchs = memory->free + Bytes(ours.reserved_bytes[SizeGroup::kAll].current) + natives;
  const Bytes most = std::min(allocator_.settings().Limit(), pytorchs) - natives;
  return std::max(most - Bytes(GetOwnStats().allocated_bytes[0].peak), Bytes(0));
}

absl::StatusOr<Bytes> GpuMemory::ReleaseIdle(const Routing& routing) {
  // At a time, since nobody can allocate meanwhile: some milliseconds.
  constexpr Bytes kAtOnce = MiB(512);
  Bytes released;
  while (!routing.HasOpenPool(ordinal_)) {
    const absl::StatusOr<Bytes> some = allocator_.ReturnIdle(kAtOnce);
    if (!some.ok()) return some.status();
    released += *some;
    if (*some >= kAtOnce) continue;
    if (absl::Status status = allocator_.MarkUse(); !status.ok()) return status;
    break;
  }
  return released;
}

DeviceStats GpuMemory::GetStats() {
  DeviceStats stats = native_share_.Stats();
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
  native_share_.native().resetPeakStats(ordinal_);
  allocator_.ResetPeakStatistics();
  absl::MutexLock lock(&phases_mutex_);
  phases_.Forget();
  own_phases_.Forget();
}

void GpuMemory::ResetAccumulatedStats() {
  native_share_.native().resetAccumulatedStats(ordinal_);
  allocator_.ResetAccumulatedStatistics();
  forgotten_ooms_.store(0, std::memory_order_relaxed);
}

void GpuMemory::BeginPhase() {
  const DeviceStats both = GetStats();
  const DeviceStats own = GetOwnStats();
  caching::CUDAAllocator& native = native_share_.native();
  if (native.initialized()) native.resetPeakStats(ordinal_);
  allocator_.ResetPeakStatistics();
  absl::MutexLock lock(&phases_mutex_);
  phases_.Close(both);
  own_phases_.Close(own);
}

void GpuMemory::SetPolicy(const PolicySettings& policy) {
  allocator_.settings().SetDriverCosts(policy.costs);
  if (UnifiedMemory* const unified = device_->unified(); unified != nullptr) unified->SetReserve(policy.host_reserve);
  // A 64th of a small GPU. Where the driver cannot say how large it is, nothing will be taken of it either.
  const absl::StatusOr<MemoryInfo> memory = device_->GetMemoryInfo();
  const Bytes part = memory.ok() ? RoundDown(Bytes(memory->total.count() / 64), kPageSize) : kDriverReserve;
  const Bytes usual = std::min(kDriverReserve, part);
  allocator_.settings().SetDriverReserve(policy.driver_reserve.value_or(usual));
  allocator_.settings().SetRemapping(policy.remap);
}

GpuMemory& GpuSet::Open(c10::DeviceIndex ordinal) {
  {
    absl::MutexLock lock(&mutex_);
    if (GpuMemory* opened = Find(ordinal); opened != nullptr) return *opened;
    Publish(Make(ordinal));
  }
  GpuMemory& opened = *Find(ordinal);
  const std::string& promise = opened.device().broken_promise();
  // Not under the lock: whoever takes the warning may wait for Python's, whose holder may wait for ours.
  if (!opened.device().HasVirtualMemory() && !promise.empty()) {
    TORCH_WARN("frugal_alloc: on GPU ", static_cast<int>(ordinal), ", ", promise);
  }
  return opened;
}

std::unique_ptr<GpuMemory> GpuSet::Make(c10::DeviceIndex ordinal) {
  absl::StatusOr<std::unique_ptr<DriverDevice>> device = DriverDevice::Open(ordinal);
  TORCH_CHECK(device.ok(), "frugal_alloc: ", device.status().message());
  for (const auto& [from, accessed] : peers_) {
    if (accessed != ordinal) continue;
    const absl::Status status = (*device)->AllowPeer(from);
    TORCH_CHECK(status.ok(), "frugal_alloc: ", status.message());
  }
  auto gpu = std::make_unique<GpuMemory>(ordinal, *std::move(device), directory_, native_, routing_, history_);
  absl::Status status = gpu->SetMemoryFraction(native_.initialized() ? native_.getMemoryFraction(ordinal) : 1.0);
  if (status.ok()) status = gpu->SetMemoryLimit(memory_limit_);
  TORCH_CHECK(status.ok(), "frugal_alloc: ", status.message());
  gpu->allocator().settings().SetCheckLevel(check_level_);
  gpu->SetPolicy(policy_);
  if (history_.has_listened()) gpu->AttachHistory();
  if (SiteSampler::is_on()) gpu->allocator().births().Start();
  gpu->BeginPhase();
  return gpu;
}

void GpuSet::Publish(std::unique_ptr<GpuMemory> gpu) {
  const c10::DeviceIndex ordinal = gpu->ordinal();
  const int count = count_.load(std::memory_order_relaxed);
  order_[static_cast<size_t>(count)] = ordinal;
  gpus_[static_cast<size_t>(ordinal)].store(gpu.release(), std::memory_order_release);
  count_.store(count + 1, std::memory_order_release);
  idle_releaser_.Begin();
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

void GpuSet::SetMemoryLimit(const MemoryLimitSetting& limit) {
  // A GPU that is being opened either has the new limit, or is in the set by now.
  absl::MutexLock lock(&mutex_);
  absl::Status status;
  ForEach([&](GpuMemory& gpu) {
    if (status.ok()) status = gpu.SetMemoryLimit(limit);
  });
  if (status.ok()) {
    memory_limit_ = limit;
    return;
  }
  // Those that have the new one already go back; where the driver fails at that, too, it stays.
  const MemoryLimitSetting before = memory_limit_;
  ForEach([&](GpuMemory& gpu) { status.Update(gpu.SetMemoryLimit(before)); });
  TORCH_CHECK(false, "frugal_alloc could not limit memory: ", status.message());
}

void GpuSet::SetTracking(bool value) {
  // A GPU that is being opened either sees the new value, or is in the set by now.
  absl::MutexLock lock(&mutex_);
  if (value) FindAutograd();
  SiteSampler::SetOn(value);
  if (value) ForEach([](GpuMemory& gpu) { gpu.allocator().births().Start(); });
}

void GpuSet::SetCheckLevel(CheckLevel level) {
  // A GPU that is being opened either has the new level, or is in the set by now.
  absl::MutexLock lock(&mutex_);
  check_level_ = level;
  ForEach([level](GpuMemory& gpu) { gpu.allocator().settings().SetCheckLevel(level); });
}

void GpuSet::SetPolicy(const PolicySettings& policy) {
  absl::MutexLock lock(&mutex_);
  policy_ = policy;
  ForEach([&policy](GpuMemory& gpu) { gpu.SetPolicy(policy); });
}

LeakReport GpuSet::MakeLeakReport() const {
  std::vector<GpuEpochs> gpus;
  ForEach([&gpus](GpuMemory& gpu) {
    gpus.push_back({gpu.ordinal(), gpu.allocator().births().Report(), gpu.RoomAtPeak()});
  });
  return frugal::MakeLeakReport(gpus, SiteTable::Instance());
}

absl::StatusOr<Bytes> GpuSet::ReleaseIdle() {
  absl::Status status;
  Bytes released;
  ForEach([&](GpuMemory& gpu) {
    const absl::StatusOr<Bytes> some = gpu.ReleaseIdle(routing_);
    released += some.value_or(Bytes(0));
    status.Update(some.status());
  });
  if (!status.ok()) return status;
  return released;
}

void GpuSet::ReleaseIdleOrWarn() {
  const absl::Status status = ReleaseIdle().status();
  const bool fails_anew = !status.ok() && !idle_release_fails_;
  idle_release_fails_ = !status.ok();
  if (fails_anew) {
    TORCH_WARN("frugal_alloc: idle memory could not be given back, which is tried again after each interval: ",
               status.message());
  }
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
