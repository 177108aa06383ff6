// What is done, step by step, for a request that no free block serves, and what is known when nothing helped.

#pragma once

#include <optional>

#include "absl/status/status.h"
#include "allocator/backing/backing.h"
#include "allocator/backing/memory_limit.h"
#include "allocator/block_returns.h"
#include "allocator/blocks/allocator_locks.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/port/device.h"
#include "allocator/port/observer.h"
#include "allocator/port/units.h"

namespace frugal {

// By how much each step of the ladder of a miss raised what was free, of ours and of the device's, without being
// enough.
struct Remedies {
  Bytes stream_waits;  // blocks of other streams, behind a wait of this one for them
  Bytes caches;        // see Reclaimer::ReleaseCaches
  Bytes garbage;       // see Reclaimer::CollectGarbage
  Bytes host_waits;    // blocks of other streams, after the program had waited for them
  // See Reclaimer::AskNeighbours; nullopt: nobody was asked.
  std::optional<Bytes> neighbours;
};

// A request that no free block serves.
struct Miss {
  Arena& arena;
  Bytes size;  // of the free block that is wanted
  Bytes requested;
  Remedies remedies = {};  // of the latest attempt
};

// What was known when a request could not be served.
struct OutOfMemoryReport {
  Bytes requested;
  Bytes allocated;  // in blocks handed out
  Bytes awaiting;   // freed, but a stream may still be using it
  Bytes reserved;   // physical memory held
  Bytes limit;      // the most that may be held
  Bytes device_free;
  Bytes device_total;
  Bytes largest_free;  // block of ours
  Bytes unusable;      // free, but in handles that blocks in use share, so that it cannot move
  Bytes kept;          // free, but for a private pool alone
  Remedies remedies;
  // What the driver failed last for this request, though it was made up for; OK: nothing.
  absl::Status driver_failure;
};

// Of the calling thread's last request that found no memory, whichever allocator it asked: another thread's that fails
// at the same time is not meant.
OutOfMemoryReport LastOutOfMemory();

// Everything that an allocator's ladder works with. All must outlive it.
struct LadderParts {
  Reclaimer* reclaimer;  // may be null
  Ledger& ledger;
  MemoryLimit& memory_limit;
  StreamClocks& clocks;
  ArenaSet& arenas;
  Backing& backing;
  BlockReturns& returns;
};

// Not thread-safe. Lets go of the accounting lock while the driver works, and of both while others give memory
// back.
class MissLadder {
 public:
  MissLadder(const LadderParts& parts, AllocatorLocks lock) : parts_(parts), lock_(lock) {}

  // Each step only if those before did not help. Leaves a free block that is large enough, in the arena or in another
  // of its stream and pool. kResourceExhausted: none helped. Other errors: the driver's.
  absl::Status MakeRoom(Miss& miss);

  // MakeRoom has just found no memory, after `failure` of the driver, if that is not OK. REQUIRES: no free block of the
  // stream and pool holds the request, whatever its size class: so what is free is in pieces.
  void NoteOutOfMemory(const Miss& miss, const absl::Status& failure);

 private:
  // In memory of the kind that was asked for.
  bool HasRoom(const Miss& miss) const { return parts_.arenas.WithRoom(miss.arena, miss.size) != nullptr; }
  // In any that may serve.
  bool HasAnyRoom(const Miss& miss) const { return parts_.arenas.WithAnyRoom(miss.arena, miss.size) != nullptr; }
  absl::Status MakeRoomBehindStreamWaits(Miss& miss);
  absl::Status MakeRoomByReclaiming(Miss& miss);
  absl::Status MakeRoomBehindHostWaits(Miss& miss);
  absl::Status MakeRoomOfNeighbours(Miss& miss);
  // Whether the request would fit if nobody but this allocator held memory of the device.
  bool FitsAlone(const Miss& miss);

  // For reports alone: a device that cannot be asked counts as having nothing.
  MemoryInfo DeviceMemory();
  // What is free, of ours or of the device's.
  Bytes FreeAnywhere();
  // The sum of `part` over all free blocks.
  Bytes OfFreeBlocks(Bytes (*part)(const Block& block)) const;

  const LadderParts parts_;
  AllocatorLocks lock_;
};

}  // namespace frugal
