#include "bindings/adapter/native_share.h"

#include <algorithm>

namespace frugal {

DeviceStats NativeShare::Stats() const {
  return native_.initialized() ? native_.getDeviceStats(device_) : DeviceStats();
}

void NativeShare::SetLimit(double fraction, Bytes limit, Bytes total) {
  {
    absl::MutexLock lock(&mutex_);
    limit_ = limit;
    total_ = total;
    has_limit_.store(limit < kUnlimited, std::memory_order_relaxed);
    TellNative(fraction);
  }
  NoteReserved();
}

void NativeShare::NoteReserved() {
  if (has_limit()) noted_bytes_.store(Reserved().count(), std::memory_order_relaxed);
}

Bytes NativeShare::ReadNoted(void* share) {
  return Bytes(static_cast<const NativeShare*>(share)->noted_bytes_.load(std::memory_order_relaxed));
}

void NativeShare::LeaveRoomBeside(Bytes ours, std::optional<MemoryInfo> device) {
  absl::MutexLock lock(&mutex_);
  if (!native_.initialized() || (!has_limit() && !device.has_value())) return;
  const Bytes total = device.has_value() ? device->total : total_;
  Bytes left = has_limit() ? std::max(limit_ - ours, Bytes(0)) : total;
  if (device.has_value()) left = std::min(left, Reserved() + device->free);
  TellNative(static_cast<double>(left.count()) / static_cast<double>(total.count()));
}

void NativeShare::TellNative(double fraction) {
  if (fraction == natives_fraction_ || !native_.initialized()) return;
  native_.setMemoryFraction(fraction, device_);
  natives_fraction_ = fraction;
}

Bytes NativeSegmentSize(Bytes size) {
  // As its own source has it: small requests share 2 MiB, larger ones up to 10 MiB share 20 MiB.
  if (size <= kSmallLimit) return MiB(2);
  if (size < MiB(10)) return MiB(20);
  return RoundUp(size, MiB(2));
}

}  // namespace frugal
