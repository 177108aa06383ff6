#include "allocator/kept_pools.h"

#include "allocator/blocks/block.h"
#include "allocator/blocks/extent.h"

namespace frugal {

void KeptPools::Keep(PoolId pool) {
  std::vector<Range>& ranges = kept_[pool];
  for (const Arena* arena : arenas_.all()) {
    if (arena->pool() != pool) continue;
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (const Block* block = extent->first_block(); block != nullptr; block = block->next) {
        if (block->state == BlockState::kAllocated) Add(*block, ranges);
      }
    }
  }
}

void KeptPools::KeepAwake(const Block& block) {
  if (const auto kept = kept_.find(block.extent->arena().pool()); kept != kept_.end()) Add(block, kept->second);
}

void KeptPools::Add(const Block& block, std::vector<Range>& ranges) {
  if (backing_.KeepInPlace(block.address, block.size, true).ok()) ranges.push_back({block.address, block.size});
}

void KeptPools::Release(PoolId pool) {
  if (kept_.contains(pool)) {
    released_.push_back(pool);
  } else {
    arenas_.Release(pool);
  }
}

void KeptPools::LetGo() {
  for (const PoolId pool : std::exchange(released_, {})) {
    for (const auto& [start, size] : kept_[pool]) {
      // Whoever let go of more than it kept has changed nothing for others.
      static_cast<void>(backing_.KeepInPlace(start, size, false));
    }
    kept_.erase(pool);
    arenas_.Release(pool);
  }
}

}  // namespace frugal
