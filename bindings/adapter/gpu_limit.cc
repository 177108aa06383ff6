#include "bindings/adapter/gpu_limit.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"

namespace frugal {

absl::Status GpuLimit::SetFraction(double fraction) {
  absl::MutexLock lock(&mutex_);
  const double before = std::exchange(fraction_, fraction);
  absl::Status status = Update();
  if (!status.ok()) fraction_ = before;
  return status;
}

absl::Status GpuLimit::Set(const MemoryLimitSetting& limit) {
  absl::MutexLock lock(&mutex_);
  const MemoryLimitSetting before = std::exchange(setting_, limit);
  absl::Status status = Update();
  if (!status.ok()) setting_ = before;
  return status;
}

double GpuLimit::Fraction() {
  absl::MutexLock lock(&mutex_);
  return fraction_;
}

const char* GpuLimit::Name() {
  absl::MutexLock lock(&mutex_);
  return fraction_holds_ ? "torch.cuda.set_per_process_memory_fraction" : "frugal_alloc's memory_limit";
}

absl::Status GpuLimit::Update() {
  if (fraction_ >= 1.0 && !setting_.exists()) {
    native_share_.SetLimit(fraction_, kUnlimited, kUnlimited);
    return absl::OkStatus();
  }
  absl::StatusOr<MemoryInfo> memory = device_.GetMemoryInfo();
  // Once more, since what failed may have been earlier work of the program's.
  if (!memory.ok()) memory = device_.GetMemoryInfo();
  if (!memory.ok()) return memory.status();
  const Bytes pytorchs = MemoryLimitSetting::Part(fraction_).On(memory->total);
  const Bytes ours = setting_.On(memory->total);
  fraction_holds_ = pytorchs <= ours;
  const Bytes limit = std::min(pytorchs, ours);
  native_share_.SetLimit(fraction_, limit, memory->total);
  return absl::OkStatus();
}

void GpuLimit::TellNative() {
  if (device_.unified() == nullptr) return native_share_.TellNative(std::nullopt);
  // A driver that has the host's memory gives it away until the host stands still (pytorch#174358).
  const absl::StatusOr<MemoryInfo> memory = device_.GetMemoryInfo();
  // Where it does not say how much there is, what native was told last stays.
  if (memory.ok()) native_share_.TellNative(*memory);
}

}  // namespace frugal
