#include "allocator/miss_ladder.h"

#include <algorithm>
#include <memory>

#include "absl/status/statusor.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/extent.h"
#include "allocator/blocks/statistics.h"
#include "allocator/port/check.h"
#include "allocator/stitching/unusable.h"

namespace frugal {
namespace {

OutOfMemoryReport& ThreadsOutOfMemory() {
  thread_local OutOfMemoryReport report;
  return report;
}

}  // namespace

OutOfMemoryReport LastOutOfMemory() { return ThreadsOutOfMemory(); }

absl::Status MissLadder::MakeRoom(Miss& miss) {
  miss.remedies = Remedies();
  if (parts_.reclaimer != nullptr && parts_.reclaimer->HasReleased()) [[unlikely]] {
    static_cast<void>(lock_.DuringForeignCall([&] { return parts_.reclaimer->GiveBackReleased(); }));
    if (HasRoom(miss)) return absl::OkStatus();
  }
  absl::Status status = parts_.backing.Extend(miss.arena, miss.size, WaitPolicy::kPassed);
  if (absl::IsResourceExhausted(status)) status = MakeRoomBehindStreamWaits(miss);
  if (absl::IsResourceExhausted(status) && parts_.memory_limit.reserve() > Bytes(0)) {
    status = parts_.backing.Extend(miss.arena, miss.size, WaitPolicy::kIntoReserve);
  }
  if (!absl::IsResourceExhausted(status)) return status;
  // A size class is a preference: before others have to give memory back, what is free for another class serves,
  // and what is free in segments.
  if (HasAnyRoom(miss)) return absl::OkStatus();
  parts_.ledger.Retried();
  status = MakeRoomByReclaiming(miss);
  if (absl::IsResourceExhausted(status)) status = MakeRoomBehindHostWaits(miss);
  if (absl::IsResourceExhausted(status)) status = MakeRoomOfNeighbours(miss);
  return status;
}

absl::Status MissLadder::MakeRoomBehindStreamWaits(Miss& miss) {
  const Bytes awaiting = parts_.returns.Awaiting();
  parts_.ledger.failures().Absorb(parts_.returns.PollBehindWaitsOf(miss.arena.clock().stream()));
  miss.remedies.stream_waits = awaiting - parts_.returns.Awaiting();
  if (HasRoom(miss)) return absl::OkStatus();
  return parts_.backing.Extend(miss.arena, miss.size, WaitPolicy::kThroughStreamWaits);
}

absl::Status MissLadder::MakeRoomByReclaiming(Miss& miss) {
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
    if (HasAnyRoom(miss)) return absl::OkStatus();
    status = parts_.backing.Extend(miss.arena, miss.size, WaitPolicy::kIntoReserve);
    if (!absl::IsResourceExhausted(status)) return status;
    miss.remedies.*step.gained = std::max(FreeAnywhere() - free, Bytes(0));
  }
  return status;
}

absl::Status MissLadder::MakeRoomBehindHostWaits(Miss& miss) {
  const Bytes awaiting = parts_.returns.Awaiting();
  // Free memory that other streams have yet to pass was to be had behind waits of this one, but by graphs.
  const bool is_of_graphs = miss.arena.kind() == MemoryKind::kFixed;
  if (is_of_graphs || parts_.returns.awaits() || parts_.returns.awaits_host() || parts_.clocks.NeedsHost())
    parts_.ledger.failures().Absorb(parts_.returns.WaitForAllWork(KeptPools::Which::kAll));
  miss.remedies.host_waits = awaiting - parts_.returns.Awaiting();
  if (HasAnyRoom(miss)) return absl::OkStatus();
  return parts_.backing.Extend(miss.arena, miss.size, WaitPolicy::kWithHostWaits);
}

absl::Status MissLadder::MakeRoomOfNeighbours(Miss& miss) {
  absl::Status status = absl::ResourceExhaustedError("neighbours gave back too little");
  if (parts_.reclaimer == nullptr || !FitsAlone(miss)) return status;
  const Bytes free = FreeAnywhere();
  // Also what this allocator has free, since that may be in pieces that cannot be joined.
  const Bytes wanted = RoundUp(miss.size, kPageSize);
  if (!lock_.DuringForeignCall([&] { return parts_.reclaimer->AskNeighbours(wanted); })) return status;
  if (HasAnyRoom(miss)) return absl::OkStatus();
  status = parts_.backing.Extend(miss.arena, miss.size, WaitPolicy::kWithHostWaits);
  if (absl::IsResourceExhausted(status)) miss.remedies.neighbours = std::max(FreeAnywhere() - free, Bytes(0));
  return status;
}

bool MissLadder::FitsAlone(const Miss& miss) {
  const Statistics& statistics = parts_.ledger.statistics();
  const Bytes active(statistics.active_bytes()[SizeGroup::kAll].current);
  const Bytes reserved(statistics.reserved_bytes[SizeGroup::kAll].current);
  return miss.size <= std::min(DeviceMemory().total - active, parts_.memory_limit.shared().left() + reserved - active);
}

void MissLadder::NoteOutOfMemory(const Miss& miss, const absl::Status& failure) {
  FRUGAL_CHECK(!HasAnyRoom(miss));
  const MemoryInfo device = DeviceMemory();
  parts_.ledger.RanOutOfMemory();
  const Statistics& statistics = parts_.ledger.statistics();
  const Bytes allocated(statistics.allocated_bytes[SizeGroup::kAll].current);
  const Bytes reserved(statistics.reserved_bytes[SizeGroup::kAll].current);
  ThreadsOutOfMemory() = OutOfMemoryReport{.requested = miss.requested,
                                           .allocated = allocated,
                                           .awaiting = parts_.returns.Awaiting(),
                                           .reserved = reserved,
                                           .limit = parts_.memory_limit.shared().most(),
                                           .device_free = device.free,
                                           .device_total = device.total,
                                           .largest_free = parts_.arenas.LargestFree(),
                                           .unusable = OfFreeBlocks(&UnusablePart),
                                           .kept = OfFreeBlocks(&KeptPart),
                                           .remedies = miss.remedies,
                                           .driver_failure = failure};
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

Bytes MissLadder::OfFreeBlocks(Bytes (*part)(const Block& block)) const {
  Bytes bytes;
  for (const Arena* arena : parts_.arenas.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (const Block* block = extent->first_block(); block != nullptr; block = block->next) {
        if (block->IsFree()) bytes += part(*block);
      }
    }
  }
  return bytes;
}

}  // namespace frugal
