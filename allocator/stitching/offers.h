// The memory that a stitch may take.

#ifndef FRUGAL_ALLOCATOR_STITCHING_OFFERS_H_
#define FRUGAL_ALLOCATOR_STITCHING_OFFERS_H_

#include <cstdint>
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

// Not thread-safe.
class Offers {
 public:
  // Of each free block all its whole handles that may move, or none.
  explicit Offers(std::vector<Donation> donations);

  // The largest runs first.
  const std::vector<Donation>& from_largest() const { return from_largest_; }
  const std::vector<Donation>& by_address() const { return by_address_; }
  Pages pages() const { return pages_; }

  // The donation that the handle is part of; null: none.
  const Donation* Find(const Handle& handle) const;

 private:
  std::vector<Donation> from_largest_;
  std::vector<Donation> by_address_;
  Pages pages_;
  mutable const Donation* latest_ = nullptr;  // most often the next handle asked for is part of the same
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_STITCHING_OFFERS_H_
