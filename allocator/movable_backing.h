// Backing made of handles: a miss is served by moving free handles to where they make one range, and by
// creating handles only for what is lacking.

#ifndef FRUGAL_ALLOCATOR_MOVABLE_BACKING_H_
#define FRUGAL_ALLOCATOR_MOVABLE_BACKING_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/address_directory.h"
#include "allocator/arena_set.h"
#include "allocator/backing.h"
#include "allocator/budget.h"
#include "allocator/device.h"
#include "allocator/guest_returns.h"
#include "allocator/handle_table.h"
#include "allocator/ledger.h"
#include "allocator/offers.h"
#include "allocator/remap_allowance.h"
#include "allocator/stitch_plan.h"

namespace frugal {

// A plan is made without a device call that changes anything, carried out with the books untouched until no call
// is left that can fail, and undone if one does.
//
// While the memory that is held grows, handles that a stitch takes settle where they are put. Later ones are lent: they
// are guests there, and go home when they are free (GuestReturns).
//
// Stream order: a handle that moves within one stream needs no wait, since work on its new view comes after the
// work on its old one. Its old view stays mapped, stamped with the tick of its last use, until that has passed:
// unmapping under a running kernel faults. A handle of another stream moves when that stream has passed, or behind a
// stream wait.
class MovableBacking : public Backing {
 public:
  // All must outlive the backing. The ranges that it reserves are entered in `directory` as `owner`'s.
  MovableBacking(Device& device, ArenaSet& arenas, Ledger& ledger, Budget& budget, AddressDirectory& directory,
                 DeviceAllocator* owner);
  // Gives everything back to the device. REQUIRES: no block is in use and no work outstanding.
  ~MovableBacking() override;

  absl::Status Extend(Arena& arena, Bytes size, Reach reach) override;
  void BecameFree(Block* block, Address start, Address end) override { guests_.BecameFree(block, start, end); }
  absl::StatusOr<Bytes> ReturnFree(Bytes enough) override;
  absl::StatusOr<Bytes> ReturnIdle(Bytes enough, const UseMarks& marks) override;
  Bytes held() const override { return handles_.held().bytes(); }
  void CheckInvariants() const override;

 private:
  // kUnavailable: the arena's stream would have to wait for another, and is being captured.
  absl::Status ExtendWithin(Arena& arena, Bytes size, Reach reach);
  absl::StatusOr<Extent*> AddExtent(Arena& arena, Bytes size);
  absl::Status AddSideExtent(Arena& arena);
  // The memory that `arena` may take now.
  absl::StatusOr<Offers> FindOffers(const Arena& arena, Reach reach);
  absl::StatusOr<bool> MayTake(const Arena& arena, const Donation& donation, Reach reach);
  absl::StatusOr<StitchPlan> Plan(Arena& arena, Bytes size, const Offers& offers);
  // Where no page was mapped before, so that it takes the fewest new handles there can be.
  absl::StatusOr<StitchPlan> PlanApart(Arena& arena, Bytes size, const Offers& offers);
  // A request that cannot fit is refused before it is planned, page by page.
  absl::Status CheckDeviceHolds(Bytes size);
  absl::Status Allow(const StitchPlan& plan);
  // Whether the memory held stays within what may be taken to spare remapping.
  bool IsWithinSlack(const StitchPlan& plan) const;

  absl::Status Commit(Arena& arena, StitchPlan& plan, Reach reach);
  // The arena's stream waits for those that have not passed; the host does if the stream cannot and `reach` allows it.
  absl::Status OrderAfterDonors(const Arena& arena, const StitchPlan& plan, Reach reach);
  absl::StatusOr<std::vector<Handle*>> Create(Pages count);
  // Maps the handles that cannot be seen at their page of the target already.
  absl::Status MapTarget(const StitchPlan& plan);
  // Makes the pages free of views left behind, then maps the plan's handles there and opens them for access.
  absl::Status MapRun(const StitchPlan& plan, PageRun run);
  absl::Status DropStaleViews(PageRun run);
  // Whether the plan's handles are to stay where it puts them.
  static bool Settles(const Arena& arena, const StitchPlan& plan);
  void EnterInBooks(Arena& arena, const StitchPlan& plan);

  absl::Status ReturnSpares(Bytes enough, Bytes& returned);
  absl::Status ReturnPagesOf(Arena& arena, Bytes enough, Bytes& returned);
  // On an error `returned` means nothing.
  absl::Status ReturnRun(Arena& arena, const Donation& donation, Bytes& returned);
  // Whether the pages' block is idle, and every stale view of their handles can be unmapped without a wait.
  absl::StatusOr<bool> IsIdle(const Donation& donation, const UseMarks& marks);
  // Waits for the last work on each.
  absl::Status UnmapStaleViews(Handle& handle);

  Device& device_;
  ArenaSet& arenas_;
  Ledger& ledger_;
  Budget& budget_;
  AddressDirectory& directory_;
  DeviceAllocator* const owner_;
  RemapAllowance allowance_;
  HandleTable handles_;
  GuestReturns guests_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_MOVABLE_BACKING_H_
