// A device that keeps account of its physical memory: how large the handles are, and which pages can be used.

#ifndef FRUGAL_TESTS_DEVICES_HANDLE_LOG_H_
#define FRUGAL_TESTS_DEVICES_HANDLE_LOG_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {

class HandleLog final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::StatusOr<PhysicalHandle> Create(Bytes size) override {
    absl::StatusOr<PhysicalHandle> handle = ForwardingDevice::Create(size);
    if (handle.ok()) created_.push_back(PagesCovering(size).count());
    return handle;
  }
  absl::Status SetAccess(Address start, Bytes size) override {
    absl::Status status = ForwardingDevice::SetAccess(start, size);
    if (!status.ok()) return status;
    for (Address page = start; page < start + size; page = page + kPageSize) open_.insert(page);
    return status;
  }
  absl::Status Unmap(Address start, Bytes size) override {
    absl::Status status = ForwardingDevice::Unmap(start, size);
    if (status.ok()) open_.erase(open_.lower_bound(start), open_.lower_bound(start + size));
    return status;
  }

  // In pages, those that were created since the last question, in their order.
  std::vector<int64_t> TakeCreated() { return std::exchange(created_, {}); }
  // Whether all pages from `start` on, which is one, can be read and written.
  bool IsOpen(Address start, Bytes size) const {
    for (Address page = start; page < start + size; page = page + kPageSize) {
      if (!open_.contains(page)) return false;
    }
    return true;
  }

 private:
  std::vector<int64_t> created_;
  std::set<Address> open_;
};

}  // namespace frugal

#endif  // FRUGAL_TESTS_DEVICES_HANDLE_LOG_H_
