// What to do when no free block of an arena is large enough: which pages of a hole to fill, and with whose
// memory. Pure: reads the arenas and changes nothing.

#ifndef FRUGAL_ALLOCATOR_STITCH_PLAN_H_
#define FRUGAL_ALLOCATOR_STITCH_PLAN_H_

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "allocator/arena.h"
#include "allocator/driver_costs.h"
#include "allocator/extent.h"
#include "allocator/offers.h"
#include "allocator/units.h"

namespace frugal {

struct StitchPlan {
  Bytes size;      // of the request
  PageRun target;  // in a hole of the arena that is to grow
  // What is to fill each page of the target; null: a handle to be created.
  std::vector<Handle*> handles;
  // Where those are that exist. Of a block's runs the one at the highest address comes first.
  std::vector<Donation> donations;
  Pages to_create;  // target.count = sum of donations + to_create
};

// The driver time that the plan takes for handles that exist, in nanoseconds; 0: all can be seen in place.
int64_t RemapNanoseconds(const StitchPlan& plan, const DriverCosts& costs);

// How `arena` gets a free block of at least `size`:
// 1. as a request of this size was served before, if that needs no driver call;
// 2. else at the place that needs the fewest new handles, and of these the least of driver time and of whole free
// pages;
// 3. if old views are in use at all of these, at pages that were never mapped.
// A handle that can still be seen at a page of the place is taken for that page; the others come from the
// largest runs first, since a big hole is the one that keeps most pages whole when some are taken.
//
// `may_unmap(view)`: the page's old view may be unmapped now.
// nullopt: there is no place, whatever is filled in; the arena needs another extent.
std::optional<StitchPlan> PlanStitch(const Arena& arena, Bytes size, const Offers& offers,
                                     absl::FunctionRef<bool(PageRef)> may_unmap, const DriverCosts& costs);

// The same at pages that were never mapped, whatever that costs: a place that joins free bytes cannot take their pages,
// too, so it may need new handles where this needs none. nullopt: the arena needs another extent.
std::optional<StitchPlan> PlanStitchApart(const Arena& arena, Bytes size, const Offers& offers,
                                          const DriverCosts& costs);

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_STITCH_PLAN_H_
