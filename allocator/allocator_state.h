// What the front door of an allocator and its facets share: the parts of the allocator, and the locks that guard them.

#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "allocator/backing/backing.h"
#include "allocator/backing/memory_limit.h"
#include "allocator/births/birth_epochs.h"
#include "allocator/block_returns.h"
#include "allocator/blocks/address_directory.h"
#include "allocator/blocks/allocator_locks.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/block_map.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/observer_queue.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/blocks/use_marks.h"
#include "allocator/kept_pools.h"
#include "allocator/miss_ladder.h"
#include "allocator/port/check.h"
#include "allocator/port/device.h"
#include "allocator/port/shared_limit.h"

namespace frugal {

// Not for callers of the allocator: see DeviceAllocator.
struct AllocatorState {
  // As DeviceAllocator's; `owner` is what the ranges are entered as in `directory`.
  AllocatorState(Device& device, AddressDirectory& directory, Reclaimer* reclaimer, DeviceAllocator* owner);
  ~AllocatorState();
  AllocatorState(const AllocatorState&) = delete;
  AllocatorState& operator=(const AllocatorState&) = delete;

  // Fails as FRUGAL_CHECK does if the accounting does not add up.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // After a call that changed something.
  void CheckChange() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (check_level == CheckLevel::kFull) [[unlikely]]
      CheckInvariants();
  }
  void CheckBlock(const Block& block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (check_level != CheckLevel::kOff) FRUGAL_CHECK(block.FitsItsNeighbours());
  }
  // Sets `health`, and returns it.
  absl::Status Break(const BrokenInvariant& broken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void SetObserver(Observer* observer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Held by whoever changes what is mapped, or how that is decided; see AllocatorLocks. What finds a free block, gives
  // one back or reads the accounting takes the other alone, and waits for nobody's call of the driver.
  absl::Mutex growth_mutex ABSL_ACQUIRED_BEFORE(mutex);
  mutable absl::Mutex mutex;
  // OK, until an invariant does not hold.
  absl::Status health ABSL_GUARDED_BY(mutex);
  // `health` is OK and nobody listens: what an allocation asks first.
  bool is_plain ABSL_GUARDED_BY(mutex) = true;
  AllocatorLocks lock;  // both
  SharedLimit shared_limit;
  Ledger ledger ABSL_GUARDED_BY(mutex);
  ObserverQueue& observers;  // the ledger's: what was noted is told without the locks
  MemoryLimit memory_limit ABSL_GUARDED_BY(mutex);
  StreamClocks clocks ABSL_GUARDED_BY(mutex);
  ArenaSet arenas ABSL_GUARDED_BY(mutex);
  std::unique_ptr<Backing> backing ABSL_GUARDED_BY(mutex);
  KeptPools pools ABSL_GUARDED_BY(mutex);
  BlockReturns returns ABSL_GUARDED_BY(mutex);
  MissLadder ladder ABSL_GUARDED_BY(mutex);
  UseMarks use_marks ABSL_GUARDED_BY(mutex);
  BlockMap allocated ABSL_GUARDED_BY(mutex);
  // Of blocks handed out: the streams other than the arena's that use them.
  absl::flat_hash_map<const Block*, absl::InlinedVector<Stream, 2>> other_streams ABSL_GUARDED_BY(mutex);
  // null: births are not recorded.
  std::unique_ptr<BirthEpochs> births ABSL_GUARDED_BY(mutex);
  // See Sleep: its caller copies what lies in these, which nothing but sleeping and claimed blocks do, and a block was
  // given back while asleep.
  bool sleep_copies ABSL_GUARDED_BY(mutex) = false;
  std::vector<PageRun> sleep_runs ABSL_GUARDED_BY(mutex);
  bool dropped_asleep ABSL_GUARDED_BY(mutex) = false;
  CheckLevel check_level ABSL_GUARDED_BY(mutex) = kDefaultCheckLevel;
};

}  // namespace frugal
