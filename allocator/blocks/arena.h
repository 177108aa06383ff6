// The blocks of one stream, size class and source: where they lie, which are free, where the holes are.

#pragma once

#include <memory>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/container/btree_map.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/extent.h"
#include "allocator/blocks/free_index.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/past_stitches.h"
#include "allocator/blocks/size_class.h"
#include "allocator/blocks/statistics.h"
#include "allocator/blocks/stream_clock.h"
#include "allocator/port/device.h"
#include "allocator/port/memory_source.h"
#include "allocator/port/observer.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/pool_traits.h"
#include "allocator/port/units.h"

namespace frugal {

// Not thread-safe. Makes no device call: where memory comes from is the business of Backing.
// Invariants: the free index holds each free block of the extents and nothing else; the same for holes.
class Arena {
 public:
  // All of its extents are of `kind`.
  Arena(StreamClock& clock, SizeClass size_class, MemoryKind kind, BlockFactory& blocks, Ledger& ledger)
      : clock_(clock),
        size_class_(size_class),
        group_(GroupOf(size_class)),
        kind_(kind),
        blocks_(blocks),
        ledger_(ledger) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  StreamClock& clock() const { return clock_; }
  SizeClass size_class() const { return size_class_; }
  // As the statistics count.
  SizeGroup group() const { return group_; }
  MemoryKind kind() const { return kind_; }
  PoolId pool() const { return pool_; }
  MemorySource source() const { return {pool_, kind_}; }
  // REQUIRES: nothing is in use.
  void BelongTo(PoolId pool) { pool_ = pool; }
  // What graphs may read of it stays; see KeptPools.
  bool is_kept() const { return is_kept_; }
  void SetKept(bool value) { is_kept_ = value; }
  bool FixesWhatItHandsOut() const { return is_kept_ && kind_ == MemoryKind::kFixed; }
  const PoolTraits& traits() const { return traits_; }
  void SetTraits(const PoolTraits& traits) { traits_ = traits; }
  // Whether a block is handed out, awaiting or set aside.
  bool IsInUse() const;
  const FreeIndex& free_blocks() const { return free_; }
  const absl::btree_map<Address, Block*>& holes() const { return holes_; }
  const std::vector<std::unique_ptr<Extent>>& extents() const { return extents_; }

  // The best fitting free block, cut to `size` and handed out; null if none is large enough.
  Block* Take(Bytes size);
  // The same, whole if the pool's blocks are not to be split.
  Block* TakeByTraits(Bytes size);
  // These bytes of the free block `whole`, handed out.
  Block* TakePart(Block* whole, Address start, Bytes size);
  // A block handed out is free again: kReturn by its caller, kPass when the last stream has passed.
  // Returns the free block that it is part of now.
  Block* PutBack(Block* block, BlockStep step);

  PastStitches& past_stitches() { return past_stitches_; }
  const PastStitches& past_stitches() const { return past_stitches_; }

  Extent& AddExtent(Address start, Bytes size);
  // REQUIRES: an extent of this arena that is one free segment, or one hole without views.
  void RemoveExtent(Extent& extent);

  // Pages of a hole became free memory, because handles were moved there.
  void Fill(PageRun run);
  // Pages of the free block `whole` became a hole, because their handles moved elsewhere.
  void Vacate(Block* whole, PageRun run);
  // The same of a claimed block of whole pages.
  void Vacate(Block* claimed);

  // Sets aside a free block, or pages of one: nobody gets it and nothing joins it until it is let go. Returns the block
  // of just that, which stays the same block as long as it is claimed.
  Block* Claim(Block* whole) { return ClaimPart(whole, whole->address, whole->size); }
  Block* Claim(Block* whole, PageRun run) { return ClaimPart(whole, run.address(), run.size()); }
  // Whole grains of one.
  Block* Claim(Block* whole, Address start, Address end) { return ClaimPart(whole, start, end - start); }
  // A claimed block is free again, used last when it was before. Returns the free block that it is part of.
  Block* Unclaim(Block* claimed);

  // For Sleep. The memory of these pages, in blocks that are asleep or claimed, has gone to the device, or is back.
  void Emptied(PageRun run) { MappingChanged(MemoryEvent::Kind::kUnmap, run.address(), run.size(), 0); }
  void Refilled(PageRun run) { MappingChanged(MemoryEvent::Kind::kMap, run.address(), run.size(), 0); }
  // A claimed block is a hole: its pages, whole ones, were emptied.
  void BecomeHole(Block* claimed);

  void CheckInvariants() const;

 private:
  void EnterFree(Block* block);
  void LeaveFree(Block* block);
  // A free block covers `size` bytes from `start` on from now on; its neighbours are as they will stay.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void ResizeFree(Block* block, Address start, Bytes size) {
    const Bytes before = block->size;
    free_.Resize(block, start, size);
    ledger_.FreeResized(*block, group_, before);
  }
  // Joins `block`, free and in no index, with free neighbours, and enters the result, which may be another block.
  // Returns what it became part of.
  Block* EnterFreeMerged(Block* block);
  void EnterHoleMerged(Block* block);
  Block* ClaimPart(Block* whole, Address start, Bytes size);
  // The block of exactly this run, cut out of `whole`; what is left on either side keeps its state.
  Block* CutOut(Block* whole, Address start, Bytes size);
  // By how much filling (sign +1) or vacating (-1) this block changes the number of mapped runs.
  static int RunsChange(const Block& block, int sign);
  void MappingChanged(MemoryEvent::Kind kind, Address start, Bytes size, int runs) {
    ledger_.MappingChanged({kind, start, size, size, clock_.stream(), nullptr, nullptr, pool_}, group_, runs);
  }

  StreamClock& clock_;
  const SizeClass size_class_;
  const SizeGroup group_;
  const MemoryKind kind_;
  PoolId pool_;
  PoolTraits traits_;
  bool is_kept_ = false;
  BlockFactory& blocks_;
  Ledger& ledger_;
  std::vector<std::unique_ptr<Extent>> extents_;
  FreeIndex free_;
  absl::btree_map<Address, Block*> holes_;
  PastStitches past_stitches_;
};

}  // namespace frugal
