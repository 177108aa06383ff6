#include "cuda/host_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "allocator/port/format_bytes.h"

namespace frugal {
namespace {

HostPool::Kind Other(HostPool::Kind kind) {
  return kind == HostPool::Kind::kPinned ? HostPool::Kind::kPageable : HostPool::Kind::kPinned;
}

size_t ToSystem(Bytes size) { return static_cast<size_t>(size.count()); }

// All of it is there at once: the kernel does not count as taken what was never touched.
absl::StatusOr<Address> MakePageable(Bytes size) {
  void* const start =
      mmap(nullptr, ToSystem(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (start == MAP_FAILED) return absl::ResourceExhaustedError(absl::StrCat("mmap: ", std::strerror(errno)));
  return Address(start);
}

}  // namespace

Bytes HostPool::Room() const {
  const absl::StatusOr<UnifiedMemory::State> host = UnifiedMemory(read_).Look();
  return host.ok() ? host->Room() : kUnlimited;
}

absl::Status HostPool::Grow(Bytes size, Kind kind) {
  Bytes lacking = size;
  for (const auto& [start, end] : free_[Index(kind)].ranges()) lacking -= end - start;
  if (lacking <= Bytes(0)) return absl::OkStatus();
  absl::Status status = ReleaseIdle(Other(kind));
  lacking = PagesCovering(lacking).bytes();
  while (status.ok() && lacking > Bytes(0)) {
    // Anew for each, since other processes may be at it.
    const Bytes room = Room();
    const Bytes chunk = std::min(lacking, kChunk);
    status = room < lacking ? absl::ResourceExhaustedError("host memory is short") : Add(chunk, kind);
    if (absl::IsResourceExhausted(status)) {
      status = absl::ResourceExhaustedError(
          absl::StrCat(status.message(), ": copies need ", FormatBytes(lacking), " more of it, and ",
                       room == kUnlimited ? "how much there is is not known" : FormatBytes(room) + " can be had"));
    }
    lacking -= chunk;
  }
  if (!status.ok()) static_cast<void>(ReleaseIdle(kind));
  return status;
}

absl::Status HostPool::Add(Bytes size, Kind kind) {
  void* pinned = nullptr;
  absl::StatusOr<Address> start;
  if (kind == Kind::kPageable) {
    start = MakePageable(size);
  } else if (absl::Status status = api_.ToStatus(api_.MemHostAlloc(&pinned, ToSystem(size), 0), "cuMemHostAlloc");
             status.ok()) {
    start = Address(pinned);
  } else {
    start = status;
  }
  if (!start.ok()) return start.status();
  chunks_[*start] = {kind, *start + size};
  free_[Index(kind)].Add(*start, size);
  held_[Index(kind)] += size;
  return absl::OkStatus();
}

AddressRange HostPool::Take(Kind kind, Bytes most) {
  AddressRanges& free = free_[Index(kind)];
  if (free.ranges().empty()) return {};
  const auto [start, end] = *free.ranges().begin();
  // What is free may go on in the next chunk.
  const AddressRange taken{start, std::min(std::min(end, Around(start).end) - start, most)};
  free.Remove(taken.address, taken.size);
  return taken;
}

void HostPool::Return(AddressRange taken) { free_[Index(KindOf(taken.address))].Add(taken.address, taken.size); }

absl::Status HostPool::ReleaseIdle(Kind kind) {
  absl::Status first;
  AddressRanges& free = free_[Index(kind)];
  for (auto it = chunks_.begin(); it != chunks_.end();) {
    const auto chunk = it++;
    const auto [start, end] = std::pair(chunk->first, chunk->second.end);
    const auto after = free.ranges().upper_bound(start);
    if (chunk->second.kind != kind || after == free.ranges().begin() || std::prev(after)->second < end) continue;
    absl::Status status = GiveBack(start, chunk->second);
    first.Update(status);
    if (!status.ok()) continue;
    free.Remove(start, end - start);
    held_[Index(kind)] -= end - start;
    chunks_.erase(chunk);
  }
  return first;
}

absl::Status HostPool::GiveBack(Address start, const Chunk& chunk) {
  if (chunk.kind == Kind::kPinned) return api_.ToStatus(api_.MemFreeHost(start.pointer()), "cuMemFreeHost");
  const int failed = munmap(start.pointer(), ToSystem(chunk.end - start));
  return failed == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("munmap: ", std::strerror(errno)));
}

}  // namespace frugal
