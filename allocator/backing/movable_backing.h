// Backing made of handles: a miss is served by moving free handles to where they make one range, and by
// creating handles only for what is lacking.

#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/backing/arena_ranges.h"
#include "allocator/backing/attempt.h"
#include "allocator/backing/backing.h"
#include "allocator/backing/guest_returns.h"
#include "allocator/backing/memory_limit.h"
#include "allocator/backing/page_returns.h"
#include "allocator/backing/stitch_planner.h"
#include "allocator/backing/view_bound.h"
#include "allocator/blocks/address_directory.h"
#include "allocator/blocks/allocator_locks.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/blocks/stream_questions.h"
#include "allocator/port/device.h"
#include "allocator/port/driver_costs.h"
#include "allocator/stitching/handle_table.h"
#include "allocator/stitching/stitch_claims.h"

namespace frugal {

// StitchPlanner makes a plan. What it takes is claimed. Then it is carried out, and the accounting lock is let go of
// during each call. Once no call is left that can fail, the plan is entered in the accounting; if one fails, it is
// undone.
//
// Stream order: a handle that moves within one stream needs no wait, since work on its new view comes after the
// work on its old one. Its old view stays mapped, stamped with the tick of its last use, until that has passed:
// unmapping under a running kernel faults. A handle of another stream moves when that stream has passed, or behind a
// stream wait.
class MovableBacking : public Backing {
 public:
  // All must outlive the backing. The ranges that it reserves are entered in `directory` as `owner`'s.
  MovableBacking(Device& device, ArenaSet& arenas, Ledger& ledger, MemoryLimit& memory_limit, StreamClocks& clocks,
                 AddressDirectory& directory, DeviceAllocator* owner, AllocatorLocks lock);
  // Gives everything back to the device. REQUIRES: no block is in use and no work outstanding.
  ~MovableBacking() override;

  absl::Status Extend(Arena& arena, Bytes size, WaitPolicy wait_policy) override;
  bool BecameFree(Block* block, Address start, Address end) override { return guests_.BecameFree(block, start, end); }
  void SendGuestsHome(Extent& extent, Address start, Address end) override { guests_.SendPassed(extent, start, end); }
  absl::StatusOr<Bytes> ReturnFree(Bytes enough, const OnlyPool& only) override {
    return returns_.ReturnFree(enough, only);
  }
  absl::StatusOr<Bytes> ReturnIdle(Bytes enough, const UseMarks& marks) override {
    return returns_.ReturnIdle(enough, marks);
  }
  void SetDriverCosts(const DriverCosts& costs) override { settings_.costs = costs; }
  void SetRemapping(bool on) override { settings_.remaps = on; }
  void SetOptions(const PolicyOptions& options) override { settings_.options = options; }
  void KeepPeak(Bytes most_in_use) override { settings_.most_in_use = std::max(settings_.most_in_use, most_in_use); }
  absl::Status KeepInPlace(Address start, Bytes size, bool keep) override;
  void Fix(PageRun run, bool fixed) override;
  absl::Status Empty(absl::Span<const PageRun> runs, std::vector<PageRun>& emptied) override;
  absl::Status Refill(absl::Span<const PageRun> runs) override;
  Bytes held() const override { return handles_.held().bytes(); }
  void CheckInvariants() const override;

 private:
  // kUnavailable: the arena's stream would have to wait for another, and is being captured.
  absl::Status Serve(Attempt attempt);

  // A request that cannot fit is refused before it is planned, page by page.
  absl::Status CheckDeviceHolds(Bytes size);
  absl::Status Commit(Attempt& attempt);
  // Memory could not be mapped although it was there: the driver's tables are full, which all processes of the node
  // share. Drops views that nobody uses, for the next try; returns the error that it was.
  absl::Status MakeRoomForMappings(const absl::Status& failure);
  // The pieces are mapped in the run, and stay there.
  void EnterRefilled(absl::Span<const Piece> pieces, PageRun run);
  void EnterStitch(Attempt& attempt, StitchClaims& claims);

  // The pages that [start, start + size) lies in, all of them live.
  absl::StatusOr<PageRun> LivePages(Address start, Bytes size) const;

  ArenaSet& arenas_;
  Ledger& ledger_;
  MemoryLimit& memory_limit_;
  StreamClocks& clocks_;
  StitchPlanner::Settings settings_;
  HandleTable handles_;
  GuestReturns guests_;
  PageReturns returns_;
  ViewBound views_;
  ArenaRanges ranges_;
  StitchPlanner planner_;
};

}  // namespace frugal
