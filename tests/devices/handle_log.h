// A device that keeps account of its physical memory: how large the handles are, and which pages can be used.

#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "tests/devices/forwarding_device.h"

namespace frugal {

class HandleLog final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

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
  void Succeeded(const MadeCall& call) override {
    if (call.kind == Call::kCreate) created_.push_back(PagesCovering(call.size).count());
    if (call.kind == Call::kUnmap)
      open_.erase(open_.lower_bound(call.start), open_.lower_bound(call.start + call.size));
    if (call.kind != Call::kSetAccess) return;
    for (Address page = call.start; page < call.start + call.size; page = page + kPageSize) open_.insert(page);
  }

  std::vector<int64_t> created_;
  std::set<Address> open_;
};

}  // namespace frugal
