// Where a stitch could be made.

#pragma once

#include <optional>
#include <vector>

#include "allocator/blocks/arena.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/extent.h"
#include "allocator/port/units.h"
#include "allocator/stitching/offers.h"

namespace frugal {

// A run of a hole. Filled, it is one free range with the free blocks beside it.
struct StitchPlace {
  // How the hole goes on beside the run: handles of several pages may fill more of it than is needed.
  enum class Growth : uint8_t {
    kUp,    // the run starts where it must, and may end later
    kDown,  // it ends where it must, and may start earlier
    kNone,  // it is the whole hole
  };

  PageRun run;   // what is needed
  PageRun room;  // what may be filled: the run and what it may grow into
  Growth growth = Growth::kNone;
  const Block* left = nullptr;   // null: not free, or the run does not reach to that end of its hole
  const Block* right = nullptr;  // the same

  Bytes left_size() const { return left == nullptr ? Bytes(0) : left->size; }
  Bytes right_size() const { return right == nullptr ? Bytes(0) : right->size; }
};

// The place that `run` is now, if it still is part of a hole and large enough for `size`.
std::optional<StitchPlace> PlaceAt(const Arena& arena, PageRun run, Bytes size);

// At most `most` places of `arena` for a free block of at least `size`, those that need the fewest pages: edges of
// holes, where free bytes beside the hole are put to use. Growing at edges was measured against stitching into ranges
// apart alone, whose own edges go to waste: .998 of reserved memory live against .986 on a GPT-2's history. No place
// takes a page that is kept for a handle, unless that handle is on offer. `room`: how far a place need grow at most.
std::vector<StitchPlace> FindPlaces(const Arena& arena, Bytes size, Bytes room, const Offers& offers, int64_t most);

// Pages that were never mapped, so that no old view has to be unmapped. `room`: how far the place can grow at least,
// from its start on.
std::optional<StitchPlace> UntouchedPlace(const Arena& arena, Bytes size, Bytes room);

}  // namespace frugal
