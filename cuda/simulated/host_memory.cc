#include "cuda/simulated/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace frugal::sim {
namespace {

// Of 64 KiB on some AArch64 systems.
Bytes HostPage() {
  static const Bytes page(sysconf(_SC_PAGESIZE));
  return page;
}

}  // namespace

Error HostMemory::Allocate(Bytes size, void** start) {
  *start = std::aligned_alloc(static_cast<size_t>(HostPage().count()),
                              static_cast<size_t>(RoundUp(std::max(size, Bytes(1)), HostPage()).count()));
  if (*start == nullptr) return Error::kOutOfMemory;
  std::lock_guard lock(mutex_);
  ranges_[Address(*start)] = {size, /*registered=*/false};
  return Error::kSuccess;
}

Error HostMemory::Free(void* start) {
  if (start == nullptr) return Error::kSuccess;
  {
    std::lock_guard lock(mutex_);
    const auto it = ranges_.find(Address(start));
    if (it == ranges_.end() || it->second.registered) return Error::kInvalidValue;
    ranges_.erase(it);
  }
  std::free(start);
  return Error::kSuccess;
}

Error HostMemory::Register(void* start, Bytes size) {
  std::lock_guard lock(mutex_);
  const bool added = ranges_.emplace(Address(start), Range{size, /*registered=*/true}).second;
  return added ? Error::kSuccess : Error::kHostMemoryAlreadyRegistered;
}

Error HostMemory::Unregister(void* start) {
  std::lock_guard lock(mutex_);
  const auto it = ranges_.find(Address(start));
  if (it == ranges_.end() || !it->second.registered) return Error::kHostMemoryNotRegistered;
  ranges_.erase(it);
  return Error::kSuccess;
}

bool HostMemory::Contains(const void* address) const {
  std::lock_guard lock(mutex_);
  auto after = ranges_.upper_bound(Address(address));
  if (after == ranges_.begin()) return false;
  const auto around = std::prev(after);
  return Address(address) < around->first + std::max(around->second.size, Bytes(1));
}

}  // namespace frugal::sim
