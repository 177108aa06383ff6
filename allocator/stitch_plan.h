// What to do when no free block of an arena is large enough: which pages of a hole to fill, and with whose
// memory. Pure: reads the arenas and changes nothing.

#ifndef FRUGAL_ALLOCATOR_STITCH_PLAN_H_
#define FRUGAL_ALLOCATOR_STITCH_PLAN_H_

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "allocator/arena.h"
#include "allocator/block.h"
#include "allocator/extent.h"
#include "allocator/units.h"

namespace frugal {

// Whole pages of a free block whose handles are to move.
struct Donation {
  Block* block = nullptr;
  PageRun run;
};

struct StitchPlan {
  PageRun target;  // in a hole of the arena that is to grow
  std::vector<Donation> donations;
  Pages to_create;  // what the donations lack: target.count = sum of donations + to_create
};

// The whole pages of the arena's free blocks, from the largest block down.
std::vector<Donation> WholeFreePages(const Arena& arena);

// A place where `arena` can grow a free block of at least `size` by filling the fewest pages: at the frontier of
// an extent or in a hole between blocks, counting the free bytes on both sides as part of it. Growing in place
// was measured against stitching into ranges apart, whose edges go to waste: .998 of reserved memory live
// against .986 on a GPT-2's history.
//
// Donors are taken largest first, since a big hole is the one that keeps most pages whole when some are taken.
// `is_unusable(view)`: the page's old view may not be unmapped yet.
// nullopt: no hole of the arena can hold it, whatever is filled in; it needs another extent.
std::optional<StitchPlan> PlanStitch(const Arena& arena, Bytes size, absl::Span<const Arena* const> donors,
                                     absl::FunctionRef<bool(const View&)> is_unusable);

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_STITCH_PLAN_H_
