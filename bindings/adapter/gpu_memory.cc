#include "bindings/adapter/gpu_memory.h"

#include <algorithm>
#include <utility>

namespace frugal {
namespace {

// Goes back at a time, since nobody can allocate meanwhile: some milliseconds.
constexpr Bytes kAtOnce = MiB(512);

}  // namespace

GpuMemory::GpuMemory(c10::DeviceIndex ordinal, std::unique_ptr<DriverDevice> device, AddressDirectory& directory,
                     caching::CUDAAllocator& native, Routing& routing, History& history)
    : ordinal_(ordinal),
      device_(std::move(device)),
      reclaimer_(ordinal, allocator_, native_share_, routing),
      history_(history, ordinal),
      allocator_(*device_, directory, &reclaimer_),
      native_share_(ordinal, native, allocator_.settings().limit()),
      limit_(*device_, native_share_),
      statistics_(ordinal, native_share_, allocator_) {}

Bytes GpuMemory::Trim(Bytes enough, OnlyPool only) {
  const absl::StatusOr<Bytes> trimmed = allocator_.Trim(enough, only);
  if (trimmed.ok()) return *trimmed;
  if (!absl::IsDataLoss(trimmed.status())) {
    TORCH_WARN("frugal_alloc still holds idle memory of GPU ", static_cast<int>(ordinal_),
               ", since the driver did not take it back: ", trimmed.status().message());
  }
  return Bytes(0);
}

Bytes GpuMemory::Asleep() {
  Bytes asleep;
  for (const Sleep::AsleepBlock& sleeper : allocator_.sleep().Asleep()) {
    for (const AddressRange& range : sleeper.lacking) asleep += range.size;
  }
  return asleep;
}

std::optional<Bytes> GpuMemory::RoomAtPeak() {
  const absl::StatusOr<MemoryInfo> memory = device_->GetMemoryInfo();
  if (!memory.ok()) return std::nullopt;
  const Statistics ours = allocator_.GetStatistics();
  const Bytes natives = native_share_.Reserved();
  // All but what others hold.
  const Bytes pytorchs = memory->free + Bytes(ours.reserved_bytes[SizeGroup::kAll].current) + natives;
  const Bytes most = std::min(allocator_.settings().limit().most(), pytorchs) - natives;
  return std::max(most - Bytes(statistics_.Ours().allocated_bytes[0].peak), Bytes(0));
}

absl::StatusOr<Bytes> GpuMemory::ReleaseIdle(const Routing& routing) {
  Bytes released;
  while (!routing.MayCapture(ordinal_)) {
    const absl::StatusOr<Bytes> some = allocator_.ReturnIdle(kAtOnce);
    if (!some.ok()) return some.status();
    released += *some;
    if (*some >= kAtOnce) continue;
    if (absl::Status status = allocator_.MarkUse(); !status.ok()) return status;
    break;
  }
  return released;
}

GpuMemory::Given GpuMemory::GiveBack(Bytes enough, const Routing& routing) {
  Given given;
  while (given.bytes < enough && device_->HasVirtualMemory() && !routing.MayCapture(ordinal_)) {
    const Bytes at_once = std::min(enough - given.bytes, kAtOnce);
    // Where the driver fails, it stays.
    const Bytes some = allocator_.ReturnPassed(at_once).value_or(Bytes(0));
    given.bytes += some;
    if (some >= at_once) continue;
    given.is_all = allocator_.HaveStreamsPassed();
    break;
  }
  return given;
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

}  // namespace frugal
