// A request that no free block serves, on its way to one.

#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/backing/backing.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/stream_clock.h"
#include "allocator/blocks/stream_questions.h"
#include "allocator/port/device.h"
#include "allocator/port/units.h"
#include "allocator/stitching/offers.h"
#include "allocator/stitching/stitch_plan.h"

namespace frugal {

// What is known of the request while StitchPlanner plans and MovableBacking carries out the plan. Not thread-safe.
struct Attempt {
  Arena& arena;
  Bytes size;  // of the free block that it is to have
  WaitPolicy wait_policy;
  StreamQuestions questions;
  // What the device has, as it said last. Where asking failed, what takes no new memory is still allowed.
  absl::StatusOr<MemoryInfo> device = MemoryInfo();
  Pages largest_new = Pages(1);  // handle that is created
  bool saves_pages = true;       // whatever that costs the driver
  StitchPlan plan = {};          // the latest
  // If the device refuses, for whatever reason, what that plan takes, free memory may still serve.
  bool can_do_without_new = false;
  Pages on_offer = {};  // to that

  // Whether there is a block that is large enough already, since guests went home or others made room.
  bool HasRoom() const { return arena.free_blocks().BestFit(size) != nullptr; }
  // Whether the free block's memory may be had within the wait policy.
  bool MayTake(const Block& block);

  // The memory that may be taken now.
  Offers OffersFrom(const std::vector<Arena*>& arenas);

  struct LastUse {
    StreamClock* donor;
    StreamClock::Tick tick;
  };
  // Of what the plan takes from other streams.
  std::vector<LastUse> LastUsesOfDonors() const;
  // The arena's stream waits for those that have not passed; the host does if the stream cannot and the wait policy
  // allows it.
  absl::Status OrderAfter(absl::Span<const LastUse> last_uses, Ledger& ledger) const;
};

}  // namespace frugal
