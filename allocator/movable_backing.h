// Backing made of handles: a miss is served by moving free handles to where they make one range, and by
// creating handles only for what is lacking.

#ifndef FRUGAL_ALLOCATOR_MOVABLE_BACKING_H_
#define FRUGAL_ALLOCATOR_MOVABLE_BACKING_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/address_directory.h"
#include "allocator/arena_set.h"
#include "allocator/backing.h"
#include "allocator/budget.h"
#include "allocator/device.h"
#include "allocator/fence.h"
#include "allocator/handle_table.h"
#include "allocator/ledger.h"
#include "allocator/stitch_plan.h"

namespace frugal {

// A plan is made without a device call that changes anything, carried out with the books untouched until no call
// is left that can fail, and undone if one does.
//
// Stream order: a handle that moves within one stream needs no wait, since work on its new view comes after the
// work on its old one. Its old view stays mapped until a fence recorded at the move has passed: unmapping under
// a running kernel faults. A handle of another stream moves when that stream has passed, or behind a stream wait.
class MovableBacking : public Backing {
 public:
  // All must outlive the backing. The ranges that it reserves are entered in `directory` as `owner`'s.
  MovableBacking(Device& device, ArenaSet& arenas, Ledger& ledger, Budget& budget, AddressDirectory& directory,
                 DeviceAllocator* owner);
  // Gives everything back to the device. REQUIRES: no block is in use and no work outstanding.
  ~MovableBacking() override;

  absl::Status Extend(Arena& arena, Bytes size, Reach reach) override;
  absl::StatusOr<Bytes> ReturnFree() override;
  void CheckInvariants() const override;

 private:
  // The fences of a stitch: one for each stream whose memory may be taken.
  using Fences = absl::flat_hash_map<Stream, std::shared_ptr<Fence>>;

  absl::Status AddExtent(Arena& arena, Bytes size);
  // The arenas that may give handles to `arena` now.
  absl::StatusOr<std::vector<const Arena*>> Donors(const Arena& arena, Reach reach, Fences& fences);
  absl::StatusOr<StitchPlan> Plan(Arena& arena, Bytes size, Reach reach, Fences& fences);

  absl::Status Commit(Arena& arena, const StitchPlan& plan, Fences& fences);
  absl::Status OrderAfterDonors(const Arena& arena, const StitchPlan& plan, Fences& fences);
  absl::StatusOr<std::vector<Handle*>> Create(Pages count);
  // Makes the pages free of views left behind, then maps the handles there and opens them for access.
  absl::Status MapTarget(PageRun target, const std::vector<Handle*>& handles);
  absl::Status DropStaleViews(PageRun run);
  void EnterInBooks(Arena& arena, const StitchPlan& plan, const std::vector<Handle*>& handles, Fences& fences);

  absl::Status ReturnPagesOf(Arena& arena, Bytes& returned);
  absl::Status ReturnRun(Arena& arena, const Donation& donation, Bytes& returned);
  // Waits for the last work on each.
  absl::Status UnmapStaleViews(Handle& handle);

  Device& device_;
  ArenaSet& arenas_;
  Ledger& ledger_;
  Budget& budget_;
  AddressDirectory& directory_;
  DeviceAllocator* const owner_;
  HandleTable handles_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_MOVABLE_BACKING_H_
