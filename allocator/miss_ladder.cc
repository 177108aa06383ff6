#include "allocator/miss_ladder.h"

#include <algorithm>
#include <memory>

#include "absl/status/statusor.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/extent.h"
#include "allocator/blocks/statistics.h"
#include "allocator/stitching/unusable.h"

namespace frugal {
namespace {

OutOfMemoryReport& ThreadsOutOfMemory() {
  thread_local OutOfMemoryReport report;
  return report;
}

bool HasRoom(const Arena& arena, Bytes size) { return arena.free_blocks().BestFit(size) != nullptr; }

}  // namespace

OutOfMemoryReport LastOutOfMemory() { return ThreadsOutOfMemory(); }

absl::Status MissLadder::MakeRoom(Arena& arena, Bytes size) {
  remedies_ = Remedies();
  absl::Status status = parts_.backing.Extend(arena, size, WaitPolicy::kPassed);
  if (absl::IsResourceExhausted(status)) status = MakeRoomBehindStreamWaits(arena, size);
  if (absl::IsResourceExhausted(status) && parts_.memory_limit.reserve() > Bytes(0)) {
    status = parts_.backing.Extend(arena, size, WaitPolicy::kIntoReserve);
  }
  if (!absl::IsResourceExhausted(status)) return status;
  ++parts_.ledger.statistics().num_alloc_retries;
  status = MakeRoomByReclaiming(arena, size);
  if (absl::IsResourceExhausted(status)) status = MakeRoomBehindHostWaits(arena, size);
  return status;
}

absl::Status MissLadder::MakeRoomBehindStreamWaits(Arena& arena, Bytes size) {
  const Bytes awaiting = parts_.returns.Awaiting();
  parts_.ledger.failures().Absorb(parts_.returns.PollBehindWaitsOf(arena.clock().stream()));
  remedies_.stream_waits = awaiting - parts_.returns.Awaiting();
  if (HasRoom(arena, size)) return absl::OkStatus();
  return parts_.backing.Extend(arena, size, WaitPolicy::kThroughStreamWaits);
}

absl::Status MissLadder::MakeRoomByReclaiming(Arena& arena, Bytes size) {
  absl::Status status = absl::ResourceExhaustedError("nobody had memory to give back");
  if (parts_.reclaimer == nullptr) return status;
  struct Step {
    bool (Reclaimer::*reclaim)();
    Bytes Remedies::*gained;
  };
  for (const Step& step :
       {Step{&Reclaimer::ReleaseCaches, &Remedies::caches}, Step{&Reclaimer::CollectGarbage, &Remedies::garbage}}) {
    const Bytes free = FreeAnywhere();
    // Whoever gives memory back may call this allocator, from this thread or another.
    const bool some = lock_.DuringForeignCall([&] { return (parts_.reclaimer->*step.reclaim)(); });
    if (!some) continue;
    parts_.ledger.failures().Absorb(parts_.returns.Poll());
    if (HasRoom(arena, size)) return absl::OkStatus();
    status = parts_.backing.Extend(arena, size, WaitPolicy::kIntoReserve);
    if (!absl::IsResourceExhausted(status)) return status;
    remedies_.*step.gained = std::max(FreeAnywhere() - free, Bytes(0));
  }
  return status;
}

absl::Status MissLadder::MakeRoomBehindHostWaits(Arena& arena, Bytes size) {
  const Bytes awaiting = parts_.returns.Awaiting();
  // Free memory that other streams have yet to pass was to be had behind waits of this one.
  if (parts_.returns.awaits() || parts_.clocks.NeedsHost())
    parts_.ledger.failures().Absorb(parts_.returns.WaitForAllWork());
  remedies_.host_waits = awaiting - parts_.returns.Awaiting();
  if (HasRoom(arena, size)) return absl::OkStatus();
  return parts_.backing.Extend(arena, size, WaitPolicy::kWithHostWaits);
}

void MissLadder::NoteOutOfMemory(Bytes requested) {
  const MemoryInfo device = DeviceMemory();
  Statistics& statistics = parts_.ledger.statistics();
  ++statistics.num_ooms;
  const Bytes allocated(statistics.allocated_bytes[SizeGroup::kAll].current);
  const Bytes reserved(statistics.reserved_bytes[SizeGroup::kAll].current);
  ThreadsOutOfMemory() = OutOfMemoryReport{.requested = requested,
                                           .allocated = allocated,
                                           .awaiting = parts_.returns.Awaiting(),
                                           .reserved = reserved,
                                           .limit = parts_.memory_limit.shared().most(),
                                           .device_free = device.free,
                                           .device_total = device.total,
                                           .largest_free = parts_.arenas.LargestFree(),
                                           .unusable = UnusableBytes(),
                                           .remedies = remedies_,
                                           .driver_failure = parts_.ledger.failures().latest()};
}

MemoryInfo MissLadder::DeviceMemory() {
  const absl::StatusOr<MemoryInfo> asked = parts_.memory_limit.Ask();
  parts_.ledger.failures().Absorb(asked.status());
  return asked.value_or(MemoryInfo{});
}

Bytes MissLadder::FreeAnywhere() {
  const Bytes of_device = DeviceMemory().free;
  const Statistics& statistics = parts_.ledger.statistics();
  const Bytes reserved(statistics.reserved_bytes[SizeGroup::kAll].current);
  const Bytes active(statistics.active_bytes()[SizeGroup::kAll].current);
  return reserved - active + of_device;
}

Bytes MissLadder::UnusableBytes() const {
  Bytes unusable;
  for (const Arena* arena : parts_.arenas.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (const Block* block = extent->first_block(); block != nullptr; block = block->next) {
        if (block->IsFree()) unusable += UnusablePart(*block);
      }
    }
  }
  return unusable;
}

}  // namespace frugal
