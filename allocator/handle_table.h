// The physical memory that a device's arenas hold.

#ifndef FRUGAL_ALLOCATOR_HANDLE_TABLE_H_
#define FRUGAL_ALLOCATOR_HANDLE_TABLE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/device.h"
#include "allocator/extent.h"

namespace frugal {

struct PageRef {
  Extent* extent = nullptr;
  int64_t page = 0;
  friend bool operator==(const PageRef&, const PageRef&) = default;
};

// One page of physical memory. Its bytes belong to the blocks at `place`, where its view is live. Its home is where it
// goes when it becomes free: the same page, unless it is a guest at its place. It can be seen at both.
//
// Going home is what makes a loop of fixed shapes cost nothing: whatever was stitched in a turn, the next turn finds
// the free memory as this one found it, makes the same decisions, and for each stitch the views are there. Leaving
// handles where they were last used was measured against it: the loop then goes on remapping for ever.
struct Handle {
  PhysicalHandle physical;
  PageRef home;
  PageRef place;
  absl::InlinedVector<PageRef, 2> stale;  // where else it can be seen
  int32_t keepers = 0;                    // how many want it to stay where it is; see DeviceAllocator::KeepInPlace

  bool IsGuest() const { return home != place; }
};

// Whether the page is kept for a handle that is a guest elsewhere.
inline bool IsKept(const Extent& extent, int64_t page) {
  const View& view = extent.view(page);
  return view.state == View::State::kStale && view.handle->home.page == page && view.handle->home.extent == &extent;
}

// Not thread-safe. Invariants: each handle has one live view, at its place, or is a spare; a stale view at each page in
// `stale`; and a view at its home. An extent's guests() are the handles that are guests there.
class HandleTable {
 public:
  HandleTable(Device& device, const Timelines& timelines) : device_(device), timelines_(timelines) {}

  Pages held() const { return Pages(static_cast<int64_t>(handles_.size())); }

  Pages spares() const { return Pages(static_cast<int64_t>(spares_.size())); }

  // A handle without a place: a spare, else a new one. kResourceExhausted: the device is full.
  absl::StatusOr<Handle*> Create();
  // Gives a handle without a place back to the device. If the device refuses, or a view could not be unmapped, it
  // is kept as a spare and the error returned.
  absl::Status Release(Handle* handle);

  // All spares; the caller uses, keeps or releases each.
  std::vector<Handle*> TakeSpares() { return std::exchange(spares_, {}); }
  void Keep(Handle* spare) { spares_.push_back(spare); }

  // The device's mapping of a handle at a page, and the books of it. On an error neither has changed.
  absl::Status MapAt(Handle* handle, PageRef place);
  // Page by page, so that the books are right if the driver fails half-way: on an error the pages from run.first up to
  // the one that failed are unmapped. One call for all is no faster, since the driver takes its time for each handle.
  // `unmapped`, if not null, is raised by how many pages that were. REQUIRES: every page of the run has a view.
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
  void CheckStaleViews(const Handle& handle) const;

  // The books of a page that is not mapped any more.
  void Unmapped(PageRef place);

  Device& device_;
  const Timelines& timelines_;
  absl::flat_hash_map<const Handle*, std::unique_ptr<Handle>> handles_;
  std::vector<Handle*> spares_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_HANDLE_TABLE_H_
