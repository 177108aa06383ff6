// A byte range of an extent, and the states it goes through.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "allocator/port/device.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/units.h"

namespace frugal {

class Extent;

enum class BlockState : uint8_t {
  kHole,        // addresses with no memory of ours behind them
  kFree,        // memory that work on the arena's stream may use
  kAllocated,   // handed out
  kAwaiting,    // given back, but other streams have not passed yet
  kClaimed,     // free memory that is set aside for what is being done about a miss, or on its way to the device, or
                // shares a page without memory with what is asleep
  kAsleep,      // handed out, but its memory is elsewhere, or about to be; see Sleep
  kPoolAsleep,  // free memory of a pool that sleeps as a whole, since graphs may read it: likewise
};

enum class BlockStep : uint8_t {
  kFill,     // handles were mapped into a hole
  kVacate,   // the handles of a free range moved elsewhere
  kHandOut,  // to a caller
  kReturn,   // by the caller, and no other stream used it
  kDefer,    // by the caller, and other streams used it
  kPass,     // the last of those streams has passed
  kClaim,    // set aside
  kUnclaim,  // no longer
  kFallAsleep,
  kWakeUp,
  kDrop,  // given back by the caller while asleep
  kFallAsleepInPool,
  kWakeUpInPool,
};

// Fails as a check does: the accounting would be wrong from here on.
[[noreturn]] void RefuseStep(BlockState state, BlockStep step);

// The state after `step`. Fails as a check does if `state` does not allow it.
inline BlockState Transition(BlockState state, BlockStep step) {
  struct Change {
    BlockState from;
    BlockState to;
  };
  constexpr std::array<Change, 13> kChanges = {{
      {BlockState::kHole, BlockState::kFree},           // kFill
      {BlockState::kFree, BlockState::kHole},           // kVacate
      {BlockState::kFree, BlockState::kAllocated},      // kHandOut
      {BlockState::kAllocated, BlockState::kFree},      // kReturn
      {BlockState::kAllocated, BlockState::kAwaiting},  // kDefer
      {BlockState::kAwaiting, BlockState::kFree},       // kPass
      {BlockState::kFree, BlockState::kClaimed},        // kClaim
      {BlockState::kClaimed, BlockState::kFree},        // kUnclaim
      {BlockState::kAllocated, BlockState::kAsleep},    // kFallAsleep
      {BlockState::kAsleep, BlockState::kAllocated},    // kWakeUp
      {BlockState::kAsleep, BlockState::kClaimed},      // kDrop
      {BlockState::kClaimed, BlockState::kPoolAsleep},  // kFallAsleepInPool
      {BlockState::kPoolAsleep, BlockState::kClaimed},  // kWakeUpInPool
  }};
  const Change& change = kChanges[static_cast<size_t>(step)];
  if (change.from != state) [[unlikely]]
    RefuseStep(state, step);
  return change.to;
}

const char* Name(BlockState state);

// One line of cache: a million live blocks are common, so what each of them takes of the host's memory matters.
struct alignas(64) Block {
  // What a block in use was asked for with.
  struct Use {
    Bytes requested;
    void* annotation = nullptr;  // the owner's; see Observer
  };
  // The place of a free block among those of its size; see FreeIndex.
  struct FreeLinks {
    Block* left;
    Block* right;
  };

  Address address;
  Bytes size;
  Block* previous = nullptr;  // in the order of addresses, within the extent
  Block* next = nullptr;
  Extent* extent = nullptr;
  // `use` while handed out or awaiting; `links` while in a free index.
  union {
    Use use = {};
    FreeLinks links;
  };
  union {
    uint32_t birth = 0;       // of a block handed out: its cohort, while births are recorded; see BirthEpochs
    int32_t awaited_streams;  // of an awaiting block: how many other streams have not passed yet
    uint32_t
        last_use;  // of a free or claimed block: the tick of its latest use, the lower half; see StreamClock::Expand
  };
  BlockState state = BlockState::kHole;
  bool counted_as_split = false;  // in Statistics::inactive_split
  bool has_more = false;          // Free looks closer: other streams use it, it is asleep, or it has a tag
  uint8_t tag = 0;                // of a block handed out; see Sleep

  Address end() const { return address + size; }
  bool IsMapped() const { return state != BlockState::kHole; }
  bool IsFree() const { return state == BlockState::kFree; }
  bool IsAwake() const { return state == BlockState::kAllocated; }
  bool IsHandedOut() const { return state == BlockState::kAllocated || state == BlockState::kAsleep; }
  bool Sleeps() const { return state == BlockState::kAsleep || state == BlockState::kPoolAsleep; }
  bool MayFallAsleepInPool() const { return IsAwake() || IsFree(); }
  bool IsInUse() const { return IsHandedOut() || state == BlockState::kAwaiting; }
  void Apply(BlockStep step) { state = Transition(state, step); }
  // Whether the blocks before and after agree with this one about where it is.
  bool FitsItsNeighbours() const {
    return (previous == nullptr || (previous->next == this && previous->end() == address)) &&
           (next == nullptr || (next->previous == this && next->address == end()));
  }
};
static_assert(sizeof(Block) == 64);

// The stream that the block belongs to: its arena's.
Stream OwnerStream(const Block& block);
// Likewise.
PoolId OwnerPool(const Block& block);

// Makes blocks, and keeps those that are not needed for the next ones: a loop of allocations makes none.
// Not thread-safe.
class BlockFactory {
 public:
  Block* Make(Extent* extent, Address address, Bytes size, BlockState state) {
    if (unused_ == nullptr) [[unlikely]]
      AddChunk();
    Block* block = unused_;
    unused_ = block->next;
    *block = Block();
    block->extent = extent;
    block->address = address;
    block->size = size;
    block->state = state;
    return block;
  }
  void Discard(Block* block) {
    block->next = unused_;
    unused_ = block;
  }

 private:
  void AddChunk();

  std::vector<std::unique_ptr<Block[]>> chunks_;
  Block* unused_ = nullptr;  // the first of a list through Block::next
};

}  // namespace frugal
