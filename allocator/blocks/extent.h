// A reserved range of addresses: its blocks, and its pages with the handles that can be seen there.

#pragma once

#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/block_starts.h"
#include "allocator/blocks/page_table.h"
#include "allocator/port/memory_source.h"
#include "allocator/port/units.h"

namespace frugal {

class Arena;
class Extent;

// One page of an extent.
struct PageRef {
  Extent* extent = nullptr;
  int64_t page = 0;

  Address address() const;
  const View& view() const;
  friend bool operator==(const PageRef&, const PageRef&) = default;
};

// A run of pages of one extent.
struct PageRun {
  Extent* extent = nullptr;
  int64_t first = 0;
  int64_t count = 0;

  int64_t end() const { return first + count; }
  Address address() const { return PageRef{extent, first}.address(); }
  Bytes size() const { return Pages(count).bytes(); }
  friend bool operator==(const PageRun&, const PageRun&) = default;
};

// Not thread-safe. Invariants (checked by CheckInvariants):
//   the sizes of all blocks add up to size(), and each starts where the one before ends;
//   the last block that starts in a page is the one that is in `starts_` for it;
//   no two neighbours are both free, and no two are both holes;
//   a mapped extent's page is live if and only if it lies in a mapped block, but that those of claimed and sleeping
//   ones may be unmapped; holes are whole pages.
class Extent {
 public:
  // Mapped: reserved addresses, filled with handles. kSegment: one piece of cudaMalloc. One block covers the whole: a
  // hole, or free if it is a segment. REQUIRES: a mapped one starts on a multiple of kPageSize.
  Extent(Arena& arena, MemoryKind kind, Address start, Bytes size, BlockFactory& blocks);

  Arena& arena() const { return arena_; }
  MemoryKind kind() const { return kind_; }
  Address start() const { return start_; }
  Bytes size() const { return size_; }
  Address end() const { return start_ + size_; }
  Block* first_block() const { return first_; }

  bool Contains(Address address) const { return start_ <= address && address < end(); }
  // Quick but for small blocks, where it looks at those that start after the address in the same page.
  // REQUIRES: the extent contains the address.
  Block* BlockAt(Address address) const;
  // Whether all of it lies in blocks that are handed out and awake. REQUIRES: the extent contains it.
  bool IsAllocated(Address start, Address end) const;
  // The block that all of these pages lie in; null: several. O(1), however small blocks are. REQUIRES: a run of this
  // extent, which is mapped.
  Block* BlockOver(PageRun run) const {
    Block* const block = starts_.LastUpTo(run.address() + run.size() - Bytes(1));
    return block->address <= run.address() ? block : nullptr;
  }

  // A segment's are never touched.
  PageTable& pages() { return pages_; }
  const PageTable& pages() const { return pages_; }
  // The pages that lie whole inside [start, end), addresses of this extent.
  PageRun WholePages(Address start, Address end);
  // Those that it lies in, in part or whole.
  PageRun PagesOf(Address start, Address end);

  // These change the list of blocks and nothing else; the arena keeps its indexes in step.

  // Cuts `block` so that it keeps `size`; the rest is a new block after it, in the same state.
  Block* Split(Block* block, Bytes size);
  // A new block of `size`, in the same state, over the first bytes of `block`, which its caller makes smaller.
  Block* InsertBefore(Block* block, Bytes size);
  // Adds the block after `block` to it.
  void AbsorbNext(Block* block);
  // Removes a block, whose bytes its caller gives to the one before.
  void UnlinkIntoPrevious(Block* block);
  // Removes those before `block` from `start` on, where one starts; its caller gives it their bytes.
  void UnlinkIntoNext(Block* block, Address start);

  void CheckInvariants() const;

 private:
  void CheckPagesOf(const Block& block) const;
  void CheckStarts() const;
  // Out of the list, and of nothing else.
  void Unlink(Block* block) {
    (block->previous != nullptr ? block->previous->next : first_) = block->next;
    if (block->next != nullptr) block->next->previous = block->previous;
    blocks_.Discard(block);
  }

  Arena& arena_;
  const MemoryKind kind_;
  const Address start_;
  const Bytes size_;
  BlockFactory& blocks_;
  Block* first_;
  BlockStarts starts_;
  PageTable pages_;
};

inline Address PageRef::address() const { return extent->start() + Pages(page).bytes(); }
inline const View& PageRef::view() const { return std::as_const(*extent).pages().view(page); }

// Most hits cut a block, and most blocks given back join others: calls of these were 30 instructions of both.

ABSL_ATTRIBUTE_ALWAYS_INLINE
inline Block* Extent::InsertBefore(Block* block, Bytes size) {
  Block* front = blocks_.Make(this, block->address, size, block->state);
  front->previous = block->previous;
  front->next = block;
  (front->previous != nullptr ? front->previous->next : first_) = front;
  block->previous = front;
  starts_.MoveUp(block, front->end(), front);
  return front;
}

inline void Extent::UnlinkIntoPrevious(Block* block) {
  starts_.Remove(block);
  Unlink(block);
}

inline void Extent::UnlinkIntoNext(Block* block, Address start) {
  // Before the others leave the list: a page of their own is one that only the first of them may share.
  while (block->previous->address != start) {
    starts_.Remove(block->previous);
    Unlink(block->previous);
  }
  Unlink(block->previous);
  starts_.MoveDown(block, start);
}

}  // namespace frugal
