#include "allocator/backing/arena_ranges.h"

#include <algorithm>
#include <memory>

#include "absl/status/statusor.h"
#include "allocator/blocks/extent.h"

namespace frugal {
namespace {

// Addresses cost nothing but table entries, and the more there are the longer a frontier can advance before holes
// have to be refilled, which needs an unmap each. Small blocks never need much, and there may be many pools.
Bytes ExtentSize(const Arena& arena, Bytes device_total, Bytes request) {
  const bool is_large = arena.size_class() == SizeClass::kLarge;
  const Bytes usual = is_large ? device_total * 2 : Bytes(device_total.count() / 4);
  const Bytes part = arena.pool().is_default() ? usual : Bytes(usual.count() / 8);
  return RoundUp(std::max(part, request), kPageSize);
}

}  // namespace

absl::Status ArenaRanges::Add(Arena& arena, Bytes size) {
  const absl::StatusOr<Bytes> total = memory_limit_.DeviceTotal();
  if (!total.ok()) return total.status();
  const Bytes least = RoundUp(size, kPageSize);
  Bytes reserved = ExtentSize(arena, *total, size);
  const auto reserve = [&] { return lock_.DuringDriverCall([&] { return device_.Reserve(reserved); }); };
  absl::StatusOr<Address> start = reserve();
  // Addresses can run out long before memory does: the ranges of a stream are 3.5 times the device.
  while (!start.ok() && reserved > least) {
    ledger_.failures().Absorb(start.status());
    reserved = std::max(least, RoundDown(Bytes(reserved.count() / 2), kPageSize));
    start = reserve();
  }
  if (!start.ok()) return start.status();
  arena.AddExtent(*start, reserved);
  directory_.Insert(*start, reserved, owner_);
  return absl::OkStatus();
}

absl::Status ArenaRanges::ReleaseAll(const ArenaSet& arenas) {
  absl::Status status;
  for (Arena* arena : arenas.mapped()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      directory_.Erase(extent->start());
      status.Update(device_.Unreserve(extent->start(), extent->size()));
    }
  }
  return status;
}

}  // namespace frugal
