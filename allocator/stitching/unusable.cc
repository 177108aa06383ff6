#include "allocator/stitching/unusable.h"

#include <algorithm>

#include "allocator/port/check.h"
#include "allocator/stitching/handle.h"
#include "allocator/stitching/offers.h"

namespace frugal {

namespace {

// What of the block lies in its handles that `are_meant`, of which a part is elsewhere or none.
Bytes PartIn(const Block& block, bool (*are_meant)(const Handle& handle, PageRun of_block)) {
  Extent& extent = *block.extent;
  Bytes part;
  const PageRun whole = extent.WholePages(block.address, block.end());
  const PageRun pages = extent.PagesOf(block.address, block.end());
  for (int64_t page = pages.first; page < pages.end();) {
    const Handle* const handle = extent.pages().view(page).handle;
    FRUGAL_CHECK(handle != nullptr);
    const PageRun run = RunOf(*handle, handle->place);
    if (are_meant(*handle, whole)) {
      part += std::min(block.end(), run.address() + run.size()) - std::max(block.address, run.address());
    }
    page = run.end();
  }
  return part;
}

bool IsFixed(const Handle& handle, PageRun /*of_block*/) { return handle.is_fixed; }

bool IsShared(const Handle& handle, PageRun of_block) {
  const PageRun run = RunOf(handle, handle.place);
  return !handle.is_fixed && (run.first < of_block.first || run.end() > of_block.end());
}

}  // namespace

Bytes UnusablePart(const Block& block) {
  Extent& extent = *block.extent;
  if (!IsMapped(extent.kind())) return block.size - KeptPart(block);
  if (extent.pages().in_place() > 0) return PartIn(block, &IsShared);
  if (block.size < kPageSize) return block.size;
  // The same, without a look at each handle.
  return block.size - Pages(OfWholeHandles(extent.WholePages(block.address, block.end())).count).bytes();
}

Bytes KeptPart(const Block& block) {
  if (IsMapped(block.extent->kind())) {
    return block.extent->pages().in_place() > 0 ? PartIn(block, &IsFixed) : Bytes(0);
  }
  return OwnerPool(block).is_default() ? Bytes(0) : block.size;
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
