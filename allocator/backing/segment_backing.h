// Backing made of segments of cudaMalloc, for memory that other processes and libraries are to open, and for devices
// without virtual memory: what is free in one segment can never be joined with what is free in another.

#pragma once

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/backing/backing.h"
#include "allocator/backing/memory_limit.h"
#include "allocator/blocks/address_directory.h"
#include "allocator/blocks/allocator_locks.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/blocks/stream_questions.h"
#include "allocator/port/device.h"

namespace frugal {

class SegmentBacking : public Backing {
 public:
  // All must outlive the backing. The segments are entered in `directory` as `owner`'s.
  SegmentBacking(Device& device, ArenaSet& arenas, Ledger& ledger, MemoryLimit& memory_limit, StreamClocks& clocks,
                 AddressDirectory& directory, DeviceAllocator* owner, AllocatorLocks lock)
      : device_(device),
        arenas_(arenas),
        ledger_(ledger),
        memory_limit_(memory_limit),
        clocks_(clocks),
        directory_(directory),
        owner_(owner),
        lock_(lock) {}
  // Gives everything back to the device. REQUIRES: no block is in use and no work outstanding.
  ~SegmentBacking() override;

  // Segments cannot move, so stream waits gain nothing here; kWithHostWaits gives back all free segments first.
  absl::Status Extend(Arena& arena, Bytes size, WaitPolicy wait_policy) override;
  absl::StatusOr<Bytes> ReturnFree(Bytes enough, const OnlyPool& only) override;
  absl::StatusOr<Bytes> ReturnIdle(Bytes enough, const UseMarks& marks) override;
  // One that is kept stays with its arena also when it is free.
  absl::Status KeepInPlace(Address start, Bytes size, bool keep) override;
  Bytes held() const override { return held_; }
  void CheckInvariants() const override;

 private:
  // The host waits for all work if there is a free segment, whose use may not be done.
  void WaitForFreeSegments();
  // Whether a free segment, which is one block, may go.
  using Goes = absl::FunctionRef<bool(const Block&, StreamQuestions&)>;
  // Of segments that nobody keeps, up to the first that the driver refuses.
  absl::StatusOr<Bytes> ReturnSegments(Bytes enough, Goes goes);
  // Of the usual size, or of what the request takes if there is not so much.
  absl::Status Grow(Arena& arena, Bytes size, WaitPolicy wait_policy);
  absl::Status AddSegment(Arena& arena, Bytes segment, WaitPolicy wait_policy);
  absl::Status ReturnSegment(Block* claimed);
  // `source`: null: the device.
  absl::Status FreeIn(SegmentSource* source, Address segment);

  Device& device_;
  ArenaSet& arenas_;
  Ledger& ledger_;
  MemoryLimit& memory_limit_;
  StreamClocks& clocks_;
  AddressDirectory& directory_;
  DeviceAllocator* const owner_;
  AllocatorLocks lock_;
  Bytes held_;
  // By where a segment starts: how often it was kept.
  absl::flat_hash_map<Address, int> keepers_;
};

}  // namespace frugal
