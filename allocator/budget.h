// The most physical memory that may be held on a device, shared with others who hold some of it.

#ifndef FRUGAL_ALLOCATOR_BUDGET_H_
#define FRUGAL_ALLOCATOR_BUDGET_H_

#include "absl/status/status.h"
#include "allocator/device.h"
#include "allocator/units.h"

namespace frugal {

// Not thread-safe.
class Budget {
 public:
  explicit Budget(Device& device) : device_(device) {}

  void SetLimit(Bytes limit, Bytes (*others)(void*), void* context) {
    limit_ = limit;
    others_ = others;
    context_ = context;
  }
  Bytes limit() const { return limit_; }

  // kResourceExhausted: `more` on top of `held` is above the limit, or more than the device has. Asked before the
  // first of many handles is made, so that a request that cannot fit does not fill the device on its way to fail.
  absl::Status Allow(Bytes held, Bytes more) {
    const Bytes others = others_ == nullptr ? Bytes(0) : others_(context_);
    if (held + others + more > limit_) return absl::ResourceExhaustedError("above the limit on memory");
    absl::StatusOr<MemoryInfo> info = device_.GetMemoryInfo();
    if (!info.ok()) return info.status();
    if (info->free < more) return absl::ResourceExhaustedError("the device is full");
    return absl::OkStatus();
  }

 private:
  Device& device_;
  Bytes limit_ = kUnlimited;
  Bytes (*others_)(void*) = nullptr;
  void* context_ = nullptr;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BUDGET_H_
