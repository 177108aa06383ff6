// The physical memory that a device's arenas hold.

#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/blocks/allocator_locks.h"
#include "allocator/blocks/extent.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/statistics.h"
#include "allocator/port/device.h"
#include "allocator/port/shared_limit.h"
#include "allocator/stitching/handle.h"

namespace frugal {

// Not thread-safe. Lets go of the accounting lock while the device is asked; what is entered is right each time.
// Invariants: each handle has one live view, at its place, or is a spare or in flight; and a stale view at each place
// in `stale`. held() = the pages of all handles.
class HandleTable {
 public:
  // All must outlive the table. What is held is entered in `ledger`, and counted in `limit`.
  HandleTable(Device& device, const StreamClocks& clocks, Ledger& ledger, SharedLimit& limit, AllocatorLocks lock)
      : device_(device), clocks_(clocks), ledger_(ledger), limit_(limit), lock_(lock) {}

  Pages held() const { return held_; }

  struct Counts {
    int64_t handles;
    int64_t views;  // the places that they can be seen at, together
  };
  Counts counts() const { return {std::ssize(handles_), views_}; }

  const std::vector<Handle*>& spares() const { return spares_; }

  // How many pages of those handles that are to be created no spare can stand for.
  Pages LackingFor(const std::vector<Piece>& pieces) const;

  // A handle of so many pages without a place, for a range of `group`: a spare, else a new one, which redeems a part of
  // `promised`. kResourceExhausted: the device is full.
  absl::StatusOr<Handle*> Create(int64_t pages, SizeGroup group, Reservation& promised);
  // The handles that the pieces lack, each entered in `created`, too.
  absl::Status CreateLacking(std::vector<Piece>& pieces, SizeGroup group, Reservation& promised,
                             std::vector<Handle*>& created);
  // Gives a handle without a place back to the device. If the device refuses, or a view could not be unmapped, it
  // is kept as a spare and the error returned.
  absl::Status Release(Handle* handle);

  // All spares; the caller uses, keeps or releases each.
  std::vector<Handle*> TakeSpares();
  void Keep(Handle* spare);

  // Makes the pages free of views left behind, then maps the pieces' handles there, side by side, and opens them for
  // access. On an error none is mapped.
  absl::Status MapPieces(absl::Span<const Piece> pieces, PageRun run);
  // Unmaps every handle that is seen in the run, one by one, so that the accounting is right if the driver fails
  // half-way: on an error the views up to the one that failed are unmapped. One call for all is no faster, since the
  // driver takes its time for each handle. `unmapped`, if not null, is raised by how many pages that were. Of a handle
  // that is seen only in part in the run the whole view goes.
  absl::Status UnmapRun(PageRun run, int64_t* unmapped = nullptr);

  // The handle's bytes belong to `place` now, where it is mapped already. The view where they were becomes a stale one.
  void Move(Handle* handle, PageRef place);

  // The handle belongs where it is.
  void Settle(Handle* handle);
  // It belongs where it is, and stays, for one more (fewer) who wants that.
  void KeepInPlace(Handle* handle, bool keep);
  // The same for the graphs that may read it.
  void Fix(Handle* handle, bool fixed);

  // Gives every handle back, whatever is mapped. For the end of a device's allocator.
  absl::Status ReleaseAll();

  void CheckInvariants() const;

 private:
  // Has the device map a handle with its first page at `place`, and enters that. On an error nothing has changed.
  absl::Status MapAt(Handle* handle, PageRef place);
  // Opens the run for access. REQUIRES: every page of it has a view.
  absl::Status OpenRun(PageRun run);

  static void EraseStale(Handle& handle, const PageRef& place);
  static void CheckView(const Handle& handle, PageRef place, View::State state);

  // What keeps the handle, which stayed or not before, has changed.
  static void CountStaying(const Handle& handle, bool stayed);
  // The handle counts for this group from now on.
  void CountFor(Handle& handle, SizeGroup group);
  // Enters that the view whose first page is at `place` is not mapped any more.
  void Unmapped(PageRef place);
  Device& device_;
  const StreamClocks& clocks_;
  Ledger& ledger_;
  SharedLimit& limit_;
  AllocatorLocks lock_;
  absl::flat_hash_map<const Handle*, std::unique_ptr<Handle>> handles_;
  std::vector<Handle*> spares_;
  Pages held_;
  int64_t views_ = 0;
  // Handles without a place that are no spares: between Create and Move, or on their way back.
  size_t in_flight_ = 0;
};

}  // namespace frugal
