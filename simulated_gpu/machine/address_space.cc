#include "simulated_gpu/machine/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace frugal::sim {
namespace {

constexpr int kNothingBehind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

Address AlignUp(Address address, Bytes alignment) {
  const auto mask = static_cast<uint64_t>(alignment.count()) - 1;
  return Address((address.value() + mask) & ~mask);
}

int Protection(AddressSpace::Access access) {
  switch (access) {
    case AddressSpace::Access::kNone:
      return PROT_NONE;
    case AddressSpace::Access::kRead:
      return PROT_READ;
    case AddressSpace::Access::kReadWrite:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

Error HostRefused() {
  static const bool said_once = [] {
    std::fprintf(stderr,
                 "frugal simulated GPU: the host refuses another mapping; raise vm.max_map_count, or set "
                 "FRUGAL_SIM_BACKING=none if the program needs no values\n");
    return true;
  }();
  (void)said_once;
  return Error::kMapFailed;
}

}  // namespace

AddressSpace::~AddressSpace() {
  for (const Chunk& chunk : chunks_) munmap(chunk.start.pointer(), static_cast<size_t>(chunk.size.count()));
}

std::optional<Address> AddressSpace::Reserve(Bytes size, Bytes alignment, Address wish) {
  std::lock_guard lock(mutex_);
  if (size > most_ - reserved_) return std::nullopt;
  const std::optional<Address> found = TakeFreeOrChunk(size, alignment, wish);
  if (found) reserved_ += size;
  return found;
}

std::optional<Address> AddressSpace::TakeFreeOrChunk(Bytes size, Bytes alignment, Address wish) {
  if (std::optional<Address> found = TakeFree(size, alignment, wish)) return found;
  if (!AddChunk(std::max(kChunkSize, size + alignment)) && !AddChunk(size + alignment)) return std::nullopt;
  return TakeFree(size, alignment, wish);
}

std::optional<Address> AddressSpace::TakeFree(Bytes size, Bytes alignment, Address wish) {
  if (wish != Address() && AlignUp(wish, alignment) == wish) {
    auto after = free_.upper_bound(wish);
    if (after != free_.begin()) {
      const auto around = std::prev(after);
      if (wish + size <= around->first + around->second) return TakeAt(around, wish, size);
    }
  }
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const Address start = AlignUp(it->first, alignment);
    if (start + size <= it->first + it->second) return TakeAt(it, start, size);
  }
  return std::nullopt;
}

std::optional<Address> AddressSpace::TakeAt(std::map<Address, Bytes>::iterator free, Address start, Bytes size) {
  const Bytes before = start - free->first;
  const Bytes after = free->first + free->second - (start + size);
  if (after > Bytes(0)) free_.emplace(start + size, after);
  if (before > Bytes(0)) {
    free->second = before;
  } else {
    free_.erase(free);
  }
  return start;
}

bool AddressSpace::AddChunk(Bytes size) {
  const Bytes slack = size + kPageSize;
  void* mapped = mmap(nullptr, static_cast<size_t>(slack.count()), PROT_NONE, kNothingBehind, -1, 0);
  if (mapped == MAP_FAILED) return false;
  chunks_.push_back({Address(mapped), slack});
  free_.emplace(AlignUp(Address(mapped), kPageSize), size);
  return true;
}

void AddressSpace::Unreserve(Address start, Bytes size) {
  std::lock_guard lock(mutex_);
  reserved_ -= size;
  auto after = free_.lower_bound(start);
  if (after != free_.end() && after->first == start + size) {
    size += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == start) {
      before->second += size;
      return;
    }
  }
  free_.emplace_hint(after, start, size);
}

Error AddressSpace::Attach(Address start, Bytes size, const FileRange& range, Access access) {
  if (!range.file) return Error::kSuccess;
  if (access == Access::kNone) return Detach(start, size);
  void* mapped = mmap(start.pointer(), static_cast<size_t>(size.count()), Protection(access),
                      MAP_SHARED | MAP_FIXED | MAP_NORESERVE, range.file->fd(), range.offset.count());
  return mapped == MAP_FAILED ? HostRefused() : Error::kSuccess;
}

Error AddressSpace::Detach(Address start, Bytes size) {
  void* mapped = mmap(start.pointer(), static_cast<size_t>(size.count()), PROT_NONE, kNothingBehind | MAP_FIXED, -1, 0);
  return mapped == MAP_FAILED ? HostRefused() : Error::kSuccess;
}

}  // namespace frugal::sim
