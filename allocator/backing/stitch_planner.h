// How a request that no free block serves is to be served: from which memory, and where.

#pragma once

#include <optional>

#include "absl/status/status.h"
#include "allocator/backing/arena_ranges.h"
#include "allocator/backing/attempt.h"
#include "allocator/backing/memory_limit.h"
#include "allocator/backing/page_returns.h"
#include "allocator/backing/view_bound.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/ledger.h"
#include "allocator/port/driver_costs.h"
#include "allocator/port/policy_options.h"
#include "allocator/port/units.h"
#include "allocator/stitching/handle_table.h"
#include "allocator/stitching/stitch_plan.h"

namespace frugal {

// A plan is made without a device call that changes what is mapped. Not thread-safe. Lets go of the accounting lock
// while the device is asked.
class StitchPlanner {
 public:
  struct Settings {
    DriverCosts costs;
    bool remaps = true;  // else memory stays where it is mapped first
    PolicyOptions options;
    Bytes most_in_use;  // before the statistics' peaks were last reset
  };

  // All must outlive the planner.
  StitchPlanner(const Settings& settings, ArenaSet& arenas, Ledger& ledger, MemoryLimit& memory_limit,
                HandleTable& handles, PageReturns& returns, ViewBound& views, ArenaRanges& ranges)
      : settings_(settings),
        arenas_(arenas),
        ledger_(ledger),
        memory_limit_(memory_limit),
        handles_(handles),
        returns_(returns),
        views_(views),
        ranges_(ranges) {}

  // Makes the attempt's plan. kAlreadyExists: there is room. kResourceExhausted: not within the wait policy.
  absl::Status Plan(Attempt& attempt);
  // The same of free memory, once the device has refused new memory.
  absl::Status PlanWithoutNew(Attempt& attempt);

  // Of the new handles for a request of `size`, with so much left to take.
  Pages LargestPiece(Bytes size, Bytes left) const;

 private:
  // Of what takes no driver call. kNotFound: there is nothing of the kind.
  absl::Status PlanAgain(Attempt& attempt);
  // The next four have the plan allowed.
  // Any other plan.
  absl::Status ChoosePlan(Attempt& attempt);
  // Free handles from anywhere, and new ones for what is lacking.
  absl::Status PlanRemapping(Attempt& attempt);
  absl::Status PlanWithOffers(Attempt& attempt);
  // New memory alone, where nothing may move.
  absl::Status PlanInPlace(Attempt& attempt);

  // PlanStitch, or PlanStitchApart: where no page was mapped before, so that it takes the fewest new pages there can
  // be.
  using Planner = std::optional<StitchPlan>(const Arena&, const StitchRequest&);
  // With the memory on offer, or without. Makes places, or adds a range, if none has one.
  absl::Status PlanBy(Planner* planner, Attempt& attempt, bool remaps);
  // Has the plan promised what it creates. kResourceExhausted: that is more than may be held within the wait policy.
  absl::Status Allow(Attempt& attempt);

  // Whether the best fit of other size classes is a piece of handles that are in use, or stay, anyway. To take it costs
  // no page now, but keeps these handles later: so only where little is left.
  bool HasPieceFor(const Attempt& attempt) const;
  // The price of memory: held + new - most in use <= min(left / waste_part, most in use / use_part), where `left` is
  // what could still be taken after it. So the nearer the device is to being full, the less memory spares driver time.
  // `more` is new, for a request of `size`.
  bool IsWorthGrowing(Bytes more, Bytes size, Bytes left) const;

  const Settings& settings_;
  ArenaSet& arenas_;
  Ledger& ledger_;
  MemoryLimit& memory_limit_;
  HandleTable& handles_;
  PageReturns& returns_;
  ViewBound& views_;
  ArenaRanges& ranges_;
};

}  // namespace frugal
