#include "allocator/allocator_state.h"

#include "allocator/backing/paired_backing.h"
#include "allocator/backing/segment_backing.h"

namespace frugal {
namespace {

std::unique_ptr<Backing> BackingFor(Device& device, ArenaSet& arenas, Ledger& ledger, MemoryLimit& memory_limit,
                                    StreamClocks& clocks, AddressDirectory& directory, DeviceAllocator* owner,
                                    AllocatorLocks lock) {
  if (!device.HasVirtualMemory()) {
    return std::make_unique<SegmentBacking>(device, arenas, ledger, memory_limit, clocks, directory, owner, lock);
  }
  return std::make_unique<PairedBacking>(device, arenas, ledger, memory_limit, clocks, directory, owner, lock);
}

}  // namespace

AllocatorState::AllocatorState(Device& device, AddressDirectory& directory, Reclaimer* reclaimer,
                               DeviceAllocator* owner)
    : lock(growth_mutex, mutex, health),
      observers(ledger.observers()),
      memory_limit(device, shared_limit, lock),
      clocks(device, ledger, reclaimer, lock),
      arenas(device.HasVirtualMemory(), clocks, ledger),
      backing(BackingFor(device, arenas, ledger, memory_limit, clocks, directory, owner, lock)),
      pools(arenas, *backing),
      returns(ledger, clocks, *backing, pools),
      ladder({reclaimer, ledger, memory_limit, clocks, arenas, *backing, returns}, lock) {}

AllocatorState::~AllocatorState() {
  const absl::MutexLock growing(&growth_mutex);
  const absl::MutexLock locked(&mutex);
  // Nobody knows any more what may be given back, so it stays where it is.
  if (!health.ok()) static_cast<void>(backing.release());
  backing.reset();
}

absl::Status AllocatorState::Break(const BrokenInvariant& broken) {
  health = absl::DataLossError(broken.what());
  is_plain = false;
  return health;
}

void AllocatorState::SetObserver(Observer* observer) {
  observers.SetObserver(observer);
  is_plain = health.ok() && observer == nullptr;
}

void AllocatorState::CheckInvariants() const {
  Bytes active;
  Bytes recorded;
  for (const Arena* arena : arenas.all()) {
    arena->CheckInvariants();
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (const Block* block = extent->first_block(); block != nullptr; block = block->next) {
        if (block->IsInUse()) active += block->size;
        if (births != nullptr && block->IsHandedOut()) {
          recorded += births->CountedFor(block->birth, block->size);
        }
        FRUGAL_CHECK(block->IsHandedOut() == allocated.Contains(block->address));
      }
    }
  }
  FRUGAL_CHECK(births == nullptr || births->live() == recorded);
  FRUGAL_CHECK(active.count() == ledger.statistics().active_bytes()[SizeGroup::kAll].current);
  FRUGAL_CHECK(ledger.statistics().reserved_bytes[SizeGroup::kAll].current == backing->held().count());
  backing->CheckInvariants();
}

}  // namespace frugal
