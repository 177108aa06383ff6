// The address ranges that arenas of handles have.

#pragma once

#include "absl/status/status.h"
#include "allocator/backing/memory_limit.h"
#include "allocator/blocks/address_directory.h"
#include "allocator/blocks/allocator_locks.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/ledger.h"
#include "allocator/port/device.h"
#include "allocator/port/units.h"

namespace frugal {

// Not thread-safe. Lets go of the accounting lock while the device reserves.
class ArenaRanges {
 public:
  // All must outlive this. The ranges are entered in `directory` as `owner`'s.
  ArenaRanges(Device& device, Ledger& ledger, MemoryLimit& memory_limit, AddressDirectory& directory,
              DeviceAllocator* owner, AllocatorLocks lock)
      : device_(device),
        ledger_(ledger),
        memory_limit_(memory_limit),
        directory_(directory),
        owner_(owner),
        lock_(lock) {}

  // Another range of the arena, with place for a request of `size`.
  absl::Status Add(Arena& arena, Bytes size);
  // For the end of a device's allocator. REQUIRES: nothing is mapped.
  absl::Status ReleaseAll(const ArenaSet& arenas);

 private:
  Device& device_;
  Ledger& ledger_;
  MemoryLimit& memory_limit_;
  AddressDirectory& directory_;
  DeviceAllocator* const owner_;
  AllocatorLocks lock_;
};

}  // namespace frugal
