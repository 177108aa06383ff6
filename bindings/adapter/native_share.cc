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
    TellNative(fraction);
  }
  NoteReserved();
  limit_.Set(most);
}

void NativeShare::NoteReserved() {
  if (!has_limit()) return;
  uint64_t begun = 0;
  {
    absl::MutexLock lock(&mutex_);
    begun = begun_;
  }
  Settle(begun, Reserved());
}

NativeShare::Request NativeShare::Begin(Bytes wanted, std::optional<MemoryInfo> device) {
  if (!native_.initialized() || (!has_limit() && !device.has_value())) return Request(nullptr);
  const Bytes reserved = device.has_value() ? Reserved() : Bytes(0);
  absl::MutexLock lock(&mutex_);
  ++under_way_;
  ++begun_;
  const Bytes total = device.has_value() ? device->total : total_;
  Bytes most = total;
  if (has_limit()) {
    // At least what native was told last, so that most requests need tell it nothing.
    counted_ += limit_.TakeUpTo(std::max(wanted, told_ - counted_));
    most = counted_;
  }
  if (device.has_value()) most = std::min(most, reserved + device->free);
  told_ = most;
  TellNative(FractionOf(most, total));
  return Request(this);
}

void NativeShare::End() {
  uint64_t begun = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (--under_way_ > 0) return;
    begun = begun_;
  }
  if (has_limit()) Settle(begun, Reserved());
}

void NativeShare::Settle(uint64_t begun, Bytes reserved) {
  absl::MutexLock lock(&mutex_);
  if (under_way_ > 0 || begun_ != begun || !has_limit()) return;
  limit_.TakeAnyway(reserved - std::exchange(counted_, reserved));
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
