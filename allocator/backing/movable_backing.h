// Backing made of handles: a miss is served by moving free handles to where they make one range, and by
// creating handles only for what is lacking.

#ifndef FRUGAL_ALLOCATOR_BACKING_MOVABLE_BACKING_H_
#define FRUGAL_ALLOCATOR_BACKING_MOVABLE_BACKING_H_

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/backing/attempt.h"
#include "allocator/backing/backing.h"
#include "allocator/backing/guest_returns.h"
#include "allocator/backing/memory_limit.h"
#include "allocator/backing/page_returns.h"
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
#include "allocator/stitching/offers.h"
#include "allocator/stitching/stitch_claims.h"
#include "allocator/stitching/stitch_plan.h"

namespace frugal {

// A plan is made without a device call that changes anything. What it takes is claimed. Then it is carried out, and the
// accounting lock is let go of during each call. Once no call is left that can fail, the plan is entered in the
// accounting; if one fails, it is undone.
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
  void SetDriverCosts(const DriverCosts& costs) override { costs_ = costs; }
  void SetRemapping(bool on) override { remaps_ = on; }
  void SetOptions(const PolicyOptions& options) override { options_ = options; }
  void KeepPeak(Bytes most_in_use) override { most_in_use_ = std::max(most_in_use_, most_in_use); }
  absl::Status KeepInPlace(Address start, Bytes size, bool keep) override;
  void Fix(PageRun run, bool fixed) override;
  absl::Status Empty(absl::Span<const PageRun> runs, std::vector<PageRun>& emptied) override;
  absl::Status Refill(absl::Span<const PageRun> runs) override;
  Bytes held() const override { return handles_.held().bytes(); }
  void CheckInvariants() const override;

 private:
  // kUnavailable: the arena's stream would have to wait for another, and is being captured.
  absl::Status Serve(Attempt attempt);

  // The next five make the attempt's plan; nothing has changed for it yet. kAlreadyExists: there is room. The last four
  // have it allowed. kResourceExhausted: not within the wait policy.

  // What takes no driver call. kNotFound: there is nothing of the kind.
  absl::Status PlanAgain(Attempt& attempt);
  // Any other plan.
  absl::Status ChoosePlan(Attempt& attempt);
  // Free handles from anywhere, and new ones for what is lacking.
  absl::Status PlanRemapping(Attempt& attempt);
  absl::Status PlanWithOffers(Attempt& attempt);
  // New memory alone, where nothing may move.
  absl::Status PlanInPlace(Attempt& attempt);

  // Whether the best fit of other size classes is a piece of handles that are in use, or stay, anyway. To take it costs
  // no page now, but keeps these handles later: so only where little is left.
  bool HasPieceFor(const Attempt& attempt) const;

  // Of the new handles for a request of `size`, with so much left to take.
  Pages LargestPiece(Bytes size, Bytes left) const;
  // The price of memory: held + new - most in use <= min(left / waste_part, most in use / use_part), where `left` is
  // what could still be taken after it. So the nearer the device is to being full, the less memory spares driver time.
  // `more` is new, for a request of `size`.
  bool IsWorthGrowing(Bytes more, Bytes size, Bytes left) const;

  absl::StatusOr<Extent*> AddExtent(Arena& arena, Bytes size);
  // The memory that may be taken now.
  Offers OffersFor(Attempt& attempt);
  // PlanStitch, or PlanStitchApart: where no page was mapped before, so that it takes the fewest new pages there can
  // be.
  using Planner = std::optional<StitchPlan>(const Arena&, const StitchRequest&);
  // With what OffersFor finds, or without. Makes places, or adds a range, if none has one.
  absl::Status Plan(Planner* planner, Attempt& attempt, bool remaps);
  // A request that cannot fit is refused before it is planned, page by page.
  absl::Status CheckDeviceHolds(Bytes size);
  // Has the plan promised what it creates. kResourceExhausted: that is more than may be held within the wait policy.
  absl::Status Allow(Attempt& attempt);
  absl::Status Commit(Attempt& attempt);
  // The device's part of it, undone on an error.
  absl::Status MakeTarget(Attempt& attempt);
  // Memory could not be mapped although it was there: the driver's tables are full, which all processes of the node
  // share. Drops views that nobody uses, for the next try; returns the error that it was.
  absl::Status MakeRoomForMappings(const absl::Status& failure);
  // The arena's stream waits for those that have not passed; the host does if the stream cannot and the wait policy
  // allows it.
  absl::Status OrderAfter(absl::Span<const Attempt::LastUse> last_uses, const Attempt& attempt);
  // The handles that are lacking, each entered in `created`, too.
  absl::Status Create(std::vector<Piece>& pieces, SizeGroup group, Reservation& promised,
                      std::vector<Handle*>& created);
  // The pieces are mapped in the run, and stay there.
  void EnterRefilled(absl::Span<const Piece> pieces, PageRun run);
  // Maps the handles that cannot be seen at their pages of the target already.
  absl::Status MapTarget(const StitchPlan& plan);
  // Makes the pages free of views left behind, then maps the pieces there, side by side, and opens them for access.
  absl::Status MapPieces(absl::Span<const Piece> pieces, PageRun run);
  void EnterStitch(Attempt& attempt, StitchClaims& claims);

  // The pages that [start, start + size) lies in, all of them live.
  absl::StatusOr<PageRun> LivePages(Address start, Bytes size) const;

  Device& device_;
  ArenaSet& arenas_;
  Ledger& ledger_;
  MemoryLimit& memory_limit_;
  AddressDirectory& directory_;
  DeviceAllocator* const owner_;
  StreamClocks& clocks_;
  AllocatorLocks lock_;
  DriverCosts costs_;
  bool remaps_ = true;
  PolicyOptions options_;
  Bytes most_in_use_;  // before the statistics' peaks were last reset
  HandleTable handles_;
  GuestReturns guests_;
  PageReturns returns_;
  ViewBound views_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BACKING_MOVABLE_BACKING_H_
