// Free memory that a request of whole pages cannot have.

#pragma once

#include "allocator/blocks/block.h"
#include "allocator/blocks/extent.h"
#include "allocator/port/units.h"

namespace frugal {

// What of a free block lies in handles that it does not have whole: these cannot be mapped elsewhere. All of one in a
// segment of cudaMalloc, unless KeptPart says otherwise.
Bytes UnusablePart(const Block& block);
// What of a free block is for its private pool alone: all of one in such a pool's segment, and what lies in handles
// that graphs may read.
Bytes KeptPart(const Block& block);

// The bound on it. A handle that is free in part has a block in use in its other part, and so an end of that block:
//
//   sum of UnusablePart over free blocks <= sum of HandlesUnderEnds over the other mapped blocks.
//
// A block has two ends, and a new handle PolicyOptions::largest_piece pages at most, so that is 2 * 8 * 2 MiB for each
// block in use, whatever was allocated before. REQUIRES: the block is mapped and not free, in a mapped extent.
Bytes HandlesUnderEnds(const Block& block);

// FRUGAL_CHECKs the bound.
void CheckUnusable(const Extent& extent);

}  // namespace frugal
