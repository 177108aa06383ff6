// A reserved range of addresses: its pages, with the handles that can be seen there, and its blocks.

#ifndef FRUGAL_ALLOCATOR_BLOCKS_EXTENT_H_
#define FRUGAL_ALLOCATOR_BLOCKS_EXTENT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "allocator/blocks/block.h"
#include "allocator/blocks/stream_clock.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/port/units.h"

namespace frugal {

class Arena;
struct Handle;

// What can be seen at one page of an extent. A handle of several pages is seen at as many, which share a state.
struct View {
  enum class State : uint8_t {
    kNone,   // nothing is mapped
    kLive,   // the page's memory: blocks lie in it
    kStale,  // the handle's bytes belong to another page; work started before they went may still use this one
  };
  State state = State::kNone;
  // Which page of the handle it is, from 0.
  int32_t part = 0;
  Handle* handle = nullptr;
  // Not of a view whose mapping could neither be opened for access nor undone.
  bool accessible = false;
  // Of a stale view: it may be unmapped once the arena's stream has passed the first, and all have passed the second.
  StreamClock::Tick last_use = 0;
  StreamClocks::Era left_in = 0;
};

// A run of pages of one extent.
struct PageRun {
  Extent* extent = nullptr;
  int64_t first = 0;
  int64_t count = 0;

  int64_t end() const { return first + count; }
  friend bool operator==(const PageRun&, const PageRun&) = default;
};

// Not thread-safe. Invariants (checked by CheckInvariants):
//   the sizes of all blocks add up to size(), and each starts where the one before ends;
//   no two neighbours are both free, and no two are both holes;
//   a movable extent's page is live if and only if it lies in a mapped block, but that those of a claimed one may be
//   unmapped already; holes are whole pages.
class Extent {
 public:
  // kMovable: reserved addresses, filled with handles. kSegment: one piece of cudaMalloc, mapped for good.
  enum class Kind { kMovable, kSegment };

  // One block covers the whole: a hole, or free if it is a segment.
  Extent(Arena& arena, Kind kind, Address start, Bytes size, BlockFactory& blocks);

  Arena& arena() const { return arena_; }
  Kind kind() const { return kind_; }
  Address start() const { return start_; }
  Bytes size() const { return size_; }
  Address end() const { return start_ + size_; }
  Block* first_block() const { return first_; }

  bool Contains(Address address) const { return start_ <= address && address < end(); }
  Block* BlockAt(Address address) const;

  // --- Pages.
  Address PageAddress(int64_t page) const { return start_ + Pages(page).bytes(); }
  // The pages that lie whole inside [start, end), addresses of this extent.
  PageRun WholePages(Address start, Address end);
  const View& view(int64_t page) const { return page < touched() ? views_[static_cast<size_t>(page)] : kNoView; }
  View& MutableView(int64_t page) {
    if (page >= touched()) views_.resize(static_cast<size_t>(page) + 1);
    return views_[static_cast<size_t>(page)];
  }
  // No page from this one on was ever mapped.
  int64_t touched() const { return static_cast<int64_t>(views_.size()); }
  int64_t pages() const { return size_.count() / kPageSize.count(); }

  // How many handles are live here that have their home elsewhere.
  int64_t guests() const { return guests_; }
  void CountGuests(int64_t change) { guests_ += change; }
  // How many handles are live here that somebody wants to stay: see DeviceAllocator::KeepInPlace.
  int64_t in_place() const { return in_place_; }
  void CountInPlace(int64_t change) { in_place_ += change; }

  // --- Blocks. These change the list and nothing else; the arena keeps its indexes in step.

  // Cuts `block` so that it keeps `size`; the rest is a new block after it, in the same state.
  Block* Split(Block* block, Bytes size);
  // A new block of `size`, in the same state, over the first bytes of `block`, which its caller makes smaller.
  Block* InsertBefore(Block* block, Bytes size);
  // Adds the block after `block` to it.
  void AbsorbNext(Block* block);
  // Removes a block, whose bytes its caller gives to a neighbour.
  void Unlink(Block* block);

  void CheckInvariants() const;

 private:
  void CheckPagesOf(const Block& block) const;

  Arena& arena_;
  const Kind kind_;
  const Address start_;
  const Bytes size_;
  BlockFactory& blocks_;
  Block* first_;
  static inline const View kNoView = {};
  // One a page, up to the last that was ever mapped: ranges are reserved several times as large as the device. None in
  // a segment.
  std::vector<View> views_;
  int64_t guests_ = 0;
  int64_t in_place_ = 0;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_EXTENT_H_
