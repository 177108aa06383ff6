// What to do when no free block of an arena is large enough: which pages of a hole to fill, and with whose memory.
// Pure: reads the arenas and changes nothing.
//
// To stitch is to map pieces of physical memory from several places side by side, so that they make one range. The idea
// is GMLake's: Guo et al., "GMLake: Efficient and Transparent GPU Memory Defragmentation for Large-scale DNN Training
// with Virtual Memory Stitching", ASPLOS 2024.

#pragma once

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/extent.h"
#include "allocator/port/driver_costs.h"
#include "allocator/port/policy_options.h"
#include "allocator/port/shared_limit.h"
#include "allocator/port/units.h"
#include "allocator/stitching/handle_table.h"
#include "allocator/stitching/offers.h"

namespace frugal {

struct StitchPlan {
  Bytes size;                 // of the request
  PageRun target;             // in a hole of the arena that is to grow: as long as the pieces together
  std::vector<Piece> pieces;  // in the order of addresses
  // Where those handles are that exist. Of a block's runs the one at the highest address comes first.
  std::vector<Donation> donations;
  Pages to_create;  // target.count = sum of donations + to_create
  // What of them no spare stands for, once that is allowed.
  Reservation promised;
};

// What a plan is made for.
struct StitchRequest {
  Bytes size;
  const Offers& offers;
  // Pages of the largest handle that is created, a power of two.
  Pages largest_new;
  // Places that need fewer pages come before those that take less of the driver's time.
  bool saves_pages = false;
  const DriverCosts& costs;
  const PolicyOptions& options;
  // Whether the page's old view may be unmapped now.
  absl::FunctionRef<bool(PageRef)> may_unmap;
};

// As the same request was served before, where each handle can still be seen and may be taken: that takes no driver
// call. nullopt: that is not possible now.
std::optional<StitchPlan> PlanStitchAgain(const Arena& arena, Bytes size, const Offers& offers);

// How `arena` gets a free block of at least `size`:
// 1. at the place that needs the fewest new pages, of these the fewest pages if the request says so, and of these the
//    least driver time;
// 2. if old views are in use at all of these, at pages that were never mapped.
// A handle that can still be seen at a page of the place is taken for that page. The others are the largest that are
// not larger than what is lacking, from the largest runs first, since a big hole is the one that keeps most pages whole
// when some are taken; if there are only larger ones, the smallest of these, whose rest stays free behind the new
// block. nullopt: there is no place, whatever is filled in; the arena needs another extent.
std::optional<StitchPlan> PlanStitch(const Arena& arena, const StitchRequest& request);

// The same at pages that were never mapped, whatever that costs: a place that joins free bytes cannot take their pages,
// too, so it may need new handles where this needs none. nullopt: the arena needs another extent.
std::optional<StitchPlan> PlanStitchApart(const Arena& arena, const StitchRequest& request);

// What such a place needs for any handle on offer to be taken there: the last may be larger than what is lacking.
Bytes RoomApart(const StitchRequest& request);

}  // namespace frugal
