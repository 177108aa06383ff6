// A range of an arena for stitches that touch none of its free bytes.

#ifndef FRUGAL_ALLOCATOR_SIDE_EXTENT_H_
#define FRUGAL_ALLOCATOR_SIDE_EXTENT_H_

#include <cstdint>

#include "allocator/extent.h"

namespace frugal {

// Each stitch gets pages that were not used for the longest time, up to once round the range: views that another stitch
// of the same turn left would have to be unmapped and mapped again in every turn. Not thread-safe.
class SideExtent {
 public:
  bool exists() const { return extent_ != nullptr; }
  // `extent`: of the arena, and nothing is put into it but by stitches.
  void Set(Extent& extent) { extent_ = &extent; }

  // The run to use next. 0 pages: there is no room.
  PageRun Next(int64_t pages) const;
  // A stitch is about to be made at `run`, here or elsewhere.
  void Use(PageRun run);

 private:
  // The first page of a run within [from, end) that is neither live nor kept for a handle; negative: none.
  int64_t Find(int64_t from, int64_t pages) const;

  Extent* extent_ = nullptr;
  int64_t next_page_ = 0;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_SIDE_EXTENT_H_
