#include "bindings/adapter/gpu_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bindings/adapter/autograd_node.h"
#include "bindings/adapter/site_sampler.h"
#include "bindings/threads/forked_child.h"

namespace frugal {

GpuMemory& GpuSet::Open(c10::DeviceIndex ordinal) {
  absl::Status started;
  {
    absl::MutexLock lock(&mutex_);
    if (GpuMemory* opened = Find(ordinal); opened != nullptr) return *opened;
    started = Publish(Make(ordinal));
  }
  // Not under the lock: whoever takes a warning may wait for Python's, whose holder may wait for ours.
  WarnUnlessStarted(started);
  GpuMemory& opened = *Find(ordinal);
  const std::string& promise = opened.device().broken_promise();
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
  absl::Status status = gpu->limit().SetFraction(native_.initialized() ? native_.getMemoryFraction(ordinal) : 1.0);
  if (status.ok()) status = gpu->limit().Set(memory_limit_);
  TORCH_CHECK(status.ok(), "frugal_alloc: ", status.message());
  gpu->allocator().settings().SetCheckLevel(check_level_);
  gpu->SetPolicy(policy_);
  if (history_.has_listened()) gpu->AttachHistory();
  if (SiteSampler::is_on()) gpu->allocator().births().Start();
  gpu->statistics().BeginPeriod();
  return gpu;
}

absl::Status GpuSet::Publish(std::unique_ptr<GpuMemory> gpu) {
  const c10::DeviceIndex ordinal = gpu->ordinal();
  const int count = count_.load(std::memory_order_relaxed);
  order_[static_cast<size_t>(count)] = ordinal;
  gpus_[static_cast<size_t>(ordinal)].store(gpu.release(), std::memory_order_release);
  count_.store(count + 1, std::memory_order_release);
  when_opened_();
  return idle_releaser_.Begin();
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
    if (status.ok()) status = gpu.limit().Set(limit);
  });
  if (status.ok()) {
    memory_limit_ = limit;
    return;
  }
  // Those that have the new one already go back; where the driver fails at that, too, it stays.
  const MemoryLimitSetting before = memory_limit_;
  ForEach([&](GpuMemory& gpu) { status.Update(gpu.limit().Set(before)); });
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
    gpu.GiveBackReleased();
    const absl::StatusOr<Bytes> some = gpu.ReleaseIdle(routing_);
    released += some.value_or(Bytes(0));
    status.Update(some.status());
  });
  if (!status.ok()) return status;
  return released;
}

void GpuSet::MakeRoom(GpuMemory& gpu) {
  // 5 GiB of 80, where the first all-to-all of eight GPUs took 3.3 (NVIDIA/nccl#1685).
  constexpr int64_t kRoomPart = 16;
  constexpr absl::Duration kPatience = absl::Seconds(1);
  const absl::StatusOr<MemoryInfo> memory = gpu.device().GetMemoryInfo();
  if (!memory.ok()) return;
  Bytes lacking = Bytes(memory->total.count() / kRoomPart) - memory->free;
  const absl::Time deadline = absl::Now() + kPatience;
  while (lacking > Bytes(0)) {
    const GpuMemory::Given given = GiveBack(gpu, lacking);
    lacking -= given.bytes;
    if (given.is_all || absl::Now() >= deadline) break;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

GpuMemory::Given GpuSet::GiveBack(GpuMemory& gpu, Bytes enough) {
  GpuMemory::Given given;
  idle_releaser_.Call([&] { given = gpu.GiveBack(enough, routing_); });
  return given;
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

void GpuSet::WarnUnlessStarted(const absl::Status& status) {
  if (status.ok() || told_of_no_thread_.exchange(true)) return;
  TORCH_WARN("frugal_alloc: there is no thread for idle_release (", status.message(),
             "), so idle memory stays until torch.cuda.empty_cache(); setting idle_release again tries again");
}

void GpuSet::BecomeForkedChild() {
  Renew(mutex_);
  count_.store(0, std::memory_order_relaxed);
  for (std::atomic<GpuMemory*>& gpu : gpus_) gpu.store(nullptr, std::memory_order_relaxed);
  // The parent's ranges may have been in the middle of a change.
  new (&directory_) AddressDirectory;
}

void GpuSet::NoteSnapshot(MempoolId_t pool) {
  if (!history_.enabled()) return;
  ForEach([&](GpuMemory& gpu) {
    const int64_t active = pool == kDefaultPool ? gpu.statistics().Ours().active_bytes[0].current : 0;
    history_.NoteSnapshot(gpu.ordinal(), static_cast<size_t>(active));
  });
}

void GpuSet::AttachHistory() {
  // A GPU that is being opened either sees that history has listened, or is in the set by now.
  absl::MutexLock lock(&mutex_);
  ForEach([](GpuMemory& gpu) { gpu.AttachHistory(); });
}

}  // namespace frugal
