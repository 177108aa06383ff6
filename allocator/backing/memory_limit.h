// The most physical memory that may be held on a device, shared with others who hold some of it.

#pragma once

#include <algorithm>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/blocks/allocator_locks.h"
#include "allocator/port/device.h"
#include "allocator/port/shared_limit.h"
#include "allocator/port/units.h"

namespace frugal {

// Not thread-safe.
class MemoryLimit {
 public:
  MemoryLimit(Device& device, SharedLimit& shared, AllocatorLocks lock)
      : device_(device), shared_(shared), lock_(lock) {}

  SharedLimit& shared() { return shared_; }
  const SharedLimit& shared() const { return shared_; }

  // What is left to the driver as long as there is another way: see AllocatorSettings::SetDriverReserve.
  void SetReserve(Bytes reserve) { reserve_ = reserve; }
  Bytes reserve() const { return reserve_; }

  // What the device has now. An answer takes the driver 5 to 12 us, and was seen to take 8 ms, so the
  // accounting lock is let go of: to be asked before anything is planned.
  absl::StatusOr<MemoryInfo> Ask() {
    absl::StatusOr<MemoryInfo> info = lock_.DuringDriverCall([&] { return device_.GetMemoryInfo(); });
    if (info.ok()) total_ = info->total;
    return info;
  }

  // A promise of `more`, for before the first of many handles is made, so that a request that cannot fit does not fill
  // the device on its way to fail. kResourceExhausted: that is above the limit, or more than the device has beside
  // `left`.
  absl::StatusOr<Reservation> Reserve(const MemoryInfo& device, Bytes more, Bytes left = Bytes(0)) {
    if (device.free - left < more) return absl::ResourceExhaustedError("the device is full");
    if (!shared_.Take(more)) return absl::ResourceExhaustedError("above the limit on memory");
    return Reservation(shared_, more);
  }

  // What may still be taken: of the limit, and of the device beside its reserve.
  Bytes Left(const MemoryInfo& device) const {
    return std::max(Bytes(0), std::min(shared_.left(), device.free - reserve_));
  }

  // What the device has in all. Asked once.
  absl::StatusOr<Bytes> DeviceTotal() {
    if (total_ > Bytes(0)) return total_;
    const absl::StatusOr<MemoryInfo> info = Ask();
    if (!info.ok()) return info.status();
    return total_;
  }

 private:
  Device& device_;
  SharedLimit& shared_;
  AllocatorLocks lock_;
  Bytes reserve_;
  Bytes total_;
};

}  // namespace frugal
