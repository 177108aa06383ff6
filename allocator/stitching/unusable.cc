#include "allocator/stitching/unusable.h"

#include "allocator/port/check.h"
#include "allocator/stitching/handle.h"
#include "allocator/stitching/offers.h"

namespace frugal {

Bytes UnusablePart(const Block& block) {
  if (KeptPart(block) > Bytes(0)) return Bytes(0);
  if (block.extent->kind() != MemoryKind::kMovable || block.size < kPageSize) return block.size;
  return block.size - Pages(OfWholeHandles(block.extent->WholePages(block.address, block.end())).count).bytes();
}

Bytes KeptPart(const Block& block) {
  const bool is_kept = block.extent->kind() == MemoryKind::kSegment && !OwnerPool(block).is_default();
  return is_kept ? block.size : Bytes(0);
}

Bytes HandlesUnderEnds(const Block& block) {
  const Extent& extent = *block.extent;
  Bytes bytes;
  const Handle* first = nullptr;
  for (const Address end : {block.address, block.end() - Bytes(1)}) {
    const Handle* const handle = extent.pages().view((end - extent.start()).count() / kPageSize.count()).handle;
    // Of a block that is claimed it can be unmapped already.
    if (handle != nullptr && handle != first) bytes += handle->size();
    first = handle;
  }
  return bytes;
}

void CheckUnusable(const Extent& extent) {
  Bytes unusable;
  Bytes bound;
  for (const Block* block = extent.first_block(); block != nullptr; block = block->next) {
    if (block->IsFree()) {
      unusable += UnusablePart(*block);
    } else if (block->IsMapped()) {
      bound += HandlesUnderEnds(*block);
    }
  }
  FRUGAL_CHECK(unusable <= bound);
}

}  // namespace frugal
