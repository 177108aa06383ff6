#include "simulated_gpu/machine/host_memory.h"

#include <sys/mman.h>
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

void* HostMemory::Map(Bytes size) {
  const auto whole = static_cast<size_t>(RoundUp(std::max(size, Bytes(1)), HostPage()).count());
  if (host_ == nullptr) return std::aligned_alloc(static_cast<size_t>(HostPage().count()), whole);
  // Shared, so that the kernel does not count what is touched as pageable, too.
  void* const start = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  host_->Pin(Bytes(static_cast<int64_t>(whole)));
  return start;
}

void HostMemory::Unmap(void* start, Bytes size) {
  if (host_ == nullptr) return std::free(start);
  const Bytes whole = RoundUp(std::max(size, Bytes(1)), HostPage());
  munmap(start, static_cast<size_t>(whole.count()));
  host_->Pin(Bytes(-whole.count()));
}

Error HostMemory::Allocate(Bytes size, void** start) {
  *start = Map(size);
  if (*start == nullptr) return Error::kOutOfMemory;
  std::lock_guard lock(mutex_);
  ranges_[Address(*start)] = {size, /*registered=*/false};
  return Error::kSuccess;
}

Error HostMemory::Free(void* start) {
  if (start == nullptr) return Error::kSuccess;
  Bytes size;
  {
    std::lock_guard lock(mutex_);
    const auto it = ranges_.find(Address(start));
    if (it == ranges_.end() || it->second.registered) return Error::kInvalidValue;
    size = it->second.size;
    ranges_.erase(it);
  }
  Unmap(start, size);
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
