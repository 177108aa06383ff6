// Blocks that sleep: they keep their addresses, and their physical memory goes to the device for a time.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/allocator_state.h"
#include "allocator/blocks/extent.h"
#include "allocator/inspection.h"
#include "allocator/port/address_range.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/units.h"
#include "allocator/stitching/handle.h"

namespace frugal {

// A facet of a DeviceAllocator. The allocator copies nothing, so falling asleep and waking take two calls each, and no
// lock is held while their caller copies:
//
//   FallAsleep   chooses the blocks, and says which bytes will be lost
//                (the caller copies them)
//   LetGo        their memory goes; until then WakeUp undoes it, without a call of the driver
//   TakeBack     there is memory below them again, and it says which bytes are lacking
//                (the caller copies them back)
//   WakeUp       they are as they were
//
// What shares a handle with a block that is awake stays where it is. A block that is asleep may be given back. Any
// thread, but these calls must not overlap. Once an invariant does not hold, they return that.
//
// Of a pool that graphs read (KeptPools) all sleeps or nothing: a graph may read what it, or an earlier one, has left
// in memory that is free by now. So its free memory is copied, too, but for what was never handed out.
class Sleep {
 public:
  using Range = AddressRange;
  // Why memory of a block stays although the block is to sleep.
  enum class Why : uint8_t {
    kKeptInPlace,  // see DeviceAllocator::KeepInPlace, and KeptPools
    kBesideAwake,  // it shares a handle with a block that stays awake
    kInSegment,    // of cudaMalloc
  };
  // What stays of a block for one reason.
  struct StayedPart {
    BlockView block;
    Bytes size;
    Why why;
  };
  struct AsleepBlock {
    BlockView block;
    std::vector<Range> lacking;  // what it has no memory for, in the order of addresses
    PoolId pool = {};            // which sleeps as a whole: the block may be free, and the tag is the pool's
  };
  // Whether the block at this address, which has this tag, is meant. At address 0: a pool, with the tag of
  // DeviceAllocator::KeepPool.
  using Choice = absl::FunctionRef<bool(Address, uint8_t)>;

  explicit Sleep(AllocatorState& state) : state_(state) {}

  // Of the block that starts there; 0: none. kNotFound as for DeviceAllocator::Free.
  absl::Status SetTag(Address address, uint8_t tag);

  // Chooses among those that are awake; of the others more may go: `again`, if not null, is raised by which bytes of
  // the result are theirs. The host waits for all work of the device. kUnavailable: a stream is being captured; nothing
  // has changed then.
  absl::StatusOr<std::vector<Range>> FallAsleep(Choice chosen, std::vector<Range>* again = nullptr);
  // Returns what went to the device. If the driver fails, the rest stays below the blocks, which are asleep as the
  // others. After TakeBack it undoes that.
  absl::StatusOr<Bytes> LetGo();
  // All that the chosen ones lack, or on an error nothing. kResourceExhausted: there is not so much.
  absl::StatusOr<std::vector<Range>> TakeBack(Choice chosen);
  // Those of the chosen ones that lack nothing are awake. After FallAsleep it undoes that.
  absl::Status WakeUp(Choice chosen);

  // What has memory of the chosen ones, awake or asleep, and would keep it if they fell asleep now. So after a sleep:
  // what stayed.
  std::vector<StayedPart> Stayed(Choice chosen) const;
  // All that are asleep.
  std::vector<AsleepBlock> Asleep() const;
  // The pools that sleep, and those whose graphs may read one that does; see KeptPools.
  std::vector<PoolId> UnreadablePools() const;

  // What was given back while asleep is free where it has memory, and a hole where it has none; not while others copy.
  void EnterGivenBack();
  // For the allocator: the same. Returns whether there was some.
  // REQUIRES: both locks, which the analysis does not know again from outside of the facet.
  bool SettleDropped() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const bool has_some = (state_.dropped_asleep || state_.pools.has_sleepers()) && !state_.sleep_copies;
    if (has_some) Settle();
    return has_some;
  }

 private:
  using Test = absl::FunctionRef<bool(const Block&)>;
  using Blocks = absl::flat_hash_set<const Block*>;

  template <typename Result>
  Result Locked(absl::FunctionRef<Result()> call);
  template <typename Call>
  void ForEachMapped(Call&& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  bool IsMeant(const Block& block, Choice chosen) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  // Those of the extent that may be and are meant.
  Blocks ChosenOf(const Extent& extent, Choice chosen, bool (Block::*may_be)() const) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  // The handles with blocks that go, and nothing else but what may lie beside these, in runs of neighbours.
  static std::vector<PageRun> HandlesUnder(Extent& extent, Test goes, Test may_lie_beside);
  // Why a handle is none of these; nullopt: it is one.
  static std::optional<Why> WhyStays(const Handle& handle, Test goes, Test may_lie_beside);
  // What lies in the run, whose handles go, falls asleep or is set aside. Of a pool all falls asleep.
  static void LayDown(PageRun run);
  void AddStayed(Extent& extent, Choice chosen, std::vector<StayedPart>& parts) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  // The pages without memory of those that sleep and are meant.
  std::vector<PageRun> Lacking(Choice chosen) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);
  // Parts of sleeping blocks in the run.
  static void AddSleeping(PageRun run, std::vector<Range>& ranges);
  // What nobody copies any more: the same of all claimed blocks.
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.growth_mutex, state_.mutex);
  void SettleBlock(Arena& arena, Block* claimed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.growth_mutex, state_.mutex);

  AllocatorState& state_;
};

}  // namespace frugal
