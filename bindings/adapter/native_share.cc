#include "bindings/adapter/native_share.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace frugal {
namespace {

// Native takes the part as a number of bytes, rounded down.
double FractionOf(Bytes part, Bytes total) {
  const double fraction = static_cast<double>(part.count()) / static_cast<double>(total.count());
  const bool is_less = static_cast<int64_t>(fraction * static_cast<double>(total.count())) < part.count();
  return is_less ? std::nextafter(fraction, 1.0) : fraction;
}

}  // namespace

DeviceStats NativeShare::Stats() const {
  return native_.initialized() ? native_.getDeviceStats(device_) : DeviceStats();
}

void NativeShare::SetLimit(double fraction, Bytes most, Bytes total) {
  {
    absl::MutexLock lock(&mutex_);
    total_ = total;
    has_limit_.store(most < kUnlimited, std::memory_order_relaxed);
    if (!has_limit()) limit_.GiveBack(std::exchange(counted_, Bytes(0)));
    SetFraction(fraction);
  }
  NoteReserved();
  limit_.Set(most);
}

void NativeShare::NoteReserved() {
  if (!has_limit()) return;
  const Bytes reserved = Reserved();
  absl::MutexLock lock(&mutex_);
  if (has_limit()) limit_.TakeAnyway(reserved - std::exchange(counted_, reserved));
}

void NativeShare::TellNative(std::optional<MemoryInfo> device) {
  if (!native_.initialized() || (!has_limit() && !device.has_value())) return;
  const Bytes reserved = Reserved();
  absl::MutexLock lock(&mutex_);
  const Bytes total = device.has_value() ? device->total : total_;
  Bytes most = total;
  if (has_limit()) most = std::max(limit_.most() - (limit_.taken() - counted_), Bytes(0));
  if (device.has_value()) most = std::min(most, reserved + device->free);
  SetFraction(FractionOf(std::min(most, total), total));
}

void NativeShare::SetFraction(double fraction) {
  if (fraction == fraction_ || !native_.initialized()) return;
  native_.setMemoryFraction(fraction, device_);
  fraction_ = fraction;
}

Bytes NativeSegmentSize(Bytes size) {
  // As its own source has it: small requests share 2 MiB, larger ones up to 10 MiB share 20 MiB.
  if (size <= kSmallLimit) return MiB(2);
  if (size < MiB(10)) return MiB(20);
  return RoundUp(size, MiB(2));
}

}  // namespace frugal
