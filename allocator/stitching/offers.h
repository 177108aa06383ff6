// The memory that a stitch may take.

#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "allocator/blocks/arena.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/extent.h"
#include "allocator/port/units.h"
#include "allocator/stitching/handle_table.h"

namespace frugal {

// Pages of a free block, all of whole handles that may move.
struct Donation {
  Block* block = nullptr;
  PageRun run;

  Address start() const { return run.address(); }
};

// The pages of the run, live ones, that belong to handles which lie in it whole.
PageRun OfWholeHandles(PageRun run);

// What of the arena's free blocks is whole handles, from the largest block down, but for those that are to stay where
// they are. Of one block the run at the highest address comes first.
std::vector<Donation> WholeFreeHandles(const Arena& arena);

// The whole free handles that a stitch may take. They are looked for when they are asked for, from the largest free
// blocks down, and no further than a request needs: the arenas' indexes of free blocks are in order of size as they
// are, so a miss among 10,000 handles looks at some dozens of them. Not thread-safe; of use until a block changes.
class Offers {
 public:
  // Nothing is on offer.
  Offers() = default;
  // `may_take` says whether a free block of one of the donors may be used for this request. All must outlive this.
  Offers(const std::vector<Arena*>& donors, std::function<bool(const Block&)> may_take)
      : donors_(&donors), may_take_(std::move(may_take)) {}

  // Runs of at least `enough` pages in all, and of as many without any two of the blocks, or all that there are; the
  // largest runs first.
  const std::vector<Donation>& Find(Pages enough) const;
  // Of all that Find has found.
  Pages pages() const { return pages_; }

  // The free block that the handle lies in whole, if it may be taken; null: it may not.
  Block* BlockOf(const Handle& handle) const;

 private:
  void AddFrom(const Arena& donor, Pages enough) const;

  const std::vector<Arena*>* donors_ = nullptr;
  std::function<bool(const Block&)> may_take_;
  // What was found for the most that was asked for so far.
  mutable Pages enough_;
  mutable std::vector<Donation> found_;
  mutable Pages pages_;
};

}  // namespace frugal
