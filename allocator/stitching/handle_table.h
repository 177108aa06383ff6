// The physical memory that a device's arenas hold.

#ifndef FRUGAL_ALLOCATOR_STITCHING_HANDLE_TABLE_H_
#define FRUGAL_ALLOCATOR_STITCHING_HANDLE_TABLE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/blocks/allocator_locks.h"
#include "allocator/blocks/extent.h"
#include "allocator/port/device.h"

namespace frugal {

struct PageRef {
  Extent* extent = nullptr;
  int64_t page = 0;
  friend bool operator==(const PageRef&, const PageRef&) = default;
};

// A piece of physical memory, of a power of two pages. It moves as a whole. Its bytes belong to the blocks at `place`,
// where its view is live; it can still be seen at the places in `stale`. Its home is where it goes when it becomes
// free: the same place, unless it is a guest there.
//
// Going home is what makes a loop of fixed shapes cost nothing on a full device: whatever was stitched in an iteration,
// the next one finds the free memory as this one found it, makes the same decisions, and for each stitch the views are
// there. Without it, a loop of random sizes on a GPU of 1.05 times its live memory took 578 ms of driver time a pass,
// with it 12.
struct Handle {
  PhysicalHandle physical;
  int64_t pages = 0;
  PageRef home;                           // of its first page
  PageRef place;                          // of its first page
  absl::InlinedVector<PageRef, 2> stale;  // where else it can be seen: of its first page
  int32_t keepers = 0;                    // how many want it to stay where it is; see DeviceAllocator::KeepInPlace

  Bytes size() const { return Pages(pages).bytes(); }
  bool IsGuest() const { return home != place; }
};

// A handle of a stitch's target.
struct Piece {
  int64_t pages = 0;
  Handle* handle = nullptr;  // null: to be created
};

// The pages that a handle is seen at, if its first page is at `place`.
inline PageRun RunOf(const Handle& handle, PageRef place) { return {place.extent, place.page, handle.pages}; }
// Whether the page is kept for a handle that is a guest elsewhere.
inline bool IsKept(const Extent& extent, int64_t page) {
  const View& view = extent.view(page);
  return view.state == View::State::kStale &&
         view.handle->home == PageRef{const_cast<Extent*>(&extent), page - view.part};
}
// Whether the handle can be seen, and used, from this page on.
inline bool IsSeenAt(const Handle& handle, PageRef page) {
  const View& view = page.extent->view(page.page);
  return view.handle == &handle && view.part == 0 && view.accessible;
}
// Where the first page is of the handle that is seen at the page.
inline PageRef StartOfView(PageRef page) { return {page.extent, page.page - page.extent->view(page.page).part}; }

// Not thread-safe. Lets go of the books' lock while the device is asked, between which the books are right.
// Invariants: each handle has one live view, at its place, or is a spare or in flight; and a stale view at each place
// in `stale`. held() = the pages of all handles.
class HandleTable {
 public:
  HandleTable(Device& device, const StreamClocks& clocks, AllocatorLocks lock)
      : device_(device), clocks_(clocks), lock_(lock) {}

  Pages held() const { return held_; }

  Pages spares() const;
  // Of handles without a place that are no spares: between Create and Move, or on their way back to the device.
  Pages in_flight() const { return in_flight_; }

  // How many pages of those handles that are to be created no spare can stand for.
  Pages LackingFor(const std::vector<Piece>& pieces) const;

  // A handle of so many pages without a place: a spare, else a new one. kResourceExhausted: the device is full.
  absl::StatusOr<Handle*> Create(int64_t pages);
  // Gives a handle without a place back to the device. If the device refuses, or a view could not be unmapped, it
  // is kept as a spare and the error returned.
  absl::Status Release(Handle* handle);

  // All spares; the caller uses, keeps or releases each.
  std::vector<Handle*> TakeSpares();
  void Keep(Handle* spare);

  // Pages of a hole are being filled: no handle goes home to where it would be seen there.
  void BeginFilling(PageRun run) { filling_ = run; }
  void EndFilling() { filling_ = {}; }
  bool IsFilling(const PageRun& run) const {
    return run.extent == filling_.extent && run.first < filling_.end() && filling_.first < run.end();
  }

  // The device's mapping of a handle with its first page at `place`, and the books of it. On an error neither has
  // changed.
  absl::Status MapAt(Handle* handle, PageRef place);
  // Opens the run for access. REQUIRES: every page of it has a view.
  absl::Status OpenRun(PageRun run);
  // Of every handle that is seen in the run, handle by handle, so that the books are right if the driver fails
  // half-way: on an error the views up to the one that failed are unmapped. One call for all is no faster, since the
  // driver takes its time for each handle. `unmapped`, if not null, is raised by how many pages that were. Of a handle
  // that is seen only in part in the run the whole view goes.
  absl::Status UnmapRun(PageRun run, int64_t* unmapped = nullptr);

  // The handle's bytes belong to `place` now, where it is mapped already. The view where they were becomes a stale one.
  void Move(Handle* handle, PageRef place);

  // The handle belongs where it is.
  void Settle(Handle* handle);

  // Gives every handle back, whatever is mapped. For the end of a device's allocator.
  absl::Status ReleaseAll();

  void CheckInvariants() const;

 private:
  static void EraseStale(Handle& handle, const PageRef& place);
  static void CheckView(const Handle& handle, PageRef place, View::State state);

  // The books of a view, its first page at `place`, that is not mapped any more.
  void Unmapped(PageRef place);
  // The handle has no place now, or has one, or is a spare.
  void EnterFlight(const Handle& handle);
  void LeaveFlight(const Handle& handle);

  Device& device_;
  const StreamClocks& clocks_;
  AllocatorLocks lock_;
  absl::flat_hash_map<const Handle*, std::unique_ptr<Handle>> handles_;
  std::vector<Handle*> spares_;
  Pages held_;
  Pages in_flight_;
  size_t handles_in_flight_ = 0;
  PageRun filling_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_STITCHING_HANDLE_TABLE_H_
