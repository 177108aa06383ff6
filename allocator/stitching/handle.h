// A piece of physical memory, and where it can be seen.

#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "allocator/blocks/extent.h"
#include "allocator/blocks/statistics.h"
#include "allocator/port/device.h"
#include "allocator/port/units.h"

namespace frugal {

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
  SizeGroup group = SizeGroup::kLarge;    // whose reserved bytes it is counted in
  PageRef home;                           // of its first page
  PageRef place;                          // of its first page
  absl::InlinedVector<PageRef, 2> stale;  // where else it can be seen: of its first page
  int32_t keepers = 0;                    // how many want it to stay where it is; see DeviceAllocator::KeepInPlace
  bool is_fixed = false;                  // graphs may read it where it is; see KeptPools

  Bytes size() const { return Pages(pages).bytes(); }
  bool IsGuest() const { return home != place; }
  bool Stays() const { return keepers > 0 || is_fixed; }
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
  const View& view = extent.pages().view(page);
  return view.state == View::State::kStale &&
         view.handle->home == PageRef{const_cast<Extent*>(&extent), page - view.part};
}
// Whether the handle can be seen, and used, from this page on.
inline bool IsSeenAt(const Handle& handle, PageRef page) {
  const View& view = page.view();
  return view.handle == &handle && view.part == 0 && view.accessible;
}
// Where the first page is of the handle that is seen at the page.
inline PageRef StartOfView(PageRef page) { return {page.extent, page.page - page.view().part}; }

}  // namespace frugal
