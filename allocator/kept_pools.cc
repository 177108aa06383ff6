#include "allocator/kept_pools.h"

#include <algorithm>
#include <limits>

#include "allocator/blocks/block.h"
#include "allocator/blocks/extent.h"

namespace frugal {

void KeptPools::Keep(PoolId pool, bool captured) {
  Pool& kept = pools_[pool];
  kept.is_released = false;
  ++captures_;
  if (captured) kept.last_capture = captures_;
  Changed();
  if (kept.kept_since != 0) return;
  kept.kept_since = captures_;
  arenas_.SetKept(pool, true);
  for (const Arena* arena : arenas_.mapped()) {
    if (arena->pool() != pool) continue;
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (const Block* block = extent->first_block(); block != nullptr; block = block->next) {
        if (block->IsAwake()) Fix(*block);
      }
    }
  }
}

void KeptPools::KeepAwake(const Block& block) {
  if (block.extent->arena().is_kept()) Fix(block);
}

std::optional<uint8_t> KeptPools::TagOf(const Arena& arena) const {
  if (!arena.FixesWhatItHandsOut()) return std::nullopt;
  return pools_.at(arena.pool()).tag;
}

std::vector<PoolId> KeptPools::WithReaders(const absl::flat_hash_set<PoolId>& pools) const {
  int64_t since = std::numeric_limits<int64_t>::max();
  for (const PoolId pool : pools) since = std::min(since, pools_.at(pool).kept_since);
  std::vector<PoolId> readers;
  for (const auto& [pool, kept] : pools_) {
    if (pools.contains(pool) || kept.last_capture > since) readers.push_back(pool);
  }
  return readers;
}

void KeptPools::Fix(const Block& block) { backing_.Fix(block.extent->PagesOf(block.address, block.end()), true); }

void KeptPools::Unfix(PoolId pool) {
  for (const Arena* arena : arenas_.mapped()) {
    if (arena->pool() != pool) continue;
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      if (extent->pages().in_place() > 0) backing_.Fix({extent.get(), 0, extent->pages().touched()}, false);
      for (const Block* block = extent->first_block(); block != nullptr; block = block->next) {
        has_sleepers_ |= block->state == BlockState::kPoolAsleep;
      }
    }
  }
}

void KeptPools::Release(PoolId pool) {
  if (const auto kept = pools_.find(pool); kept != pools_.end()) {
    kept->second.is_released = true;
    Changed();
  } else {
    arenas_.Release(pool);
  }
}

bool KeptPools::IsMeant(const Pool& pool, Which which) const {
  if (!pool.is_released || which == Which::kAll) return pool.is_released;
  return std::none_of(pools_.begin(), pools_.end(), [&](const auto& other) {
    return !other.second.is_released && other.second.last_capture > pool.kept_since;
  });
}

bool KeptPools::HasReleased(Which which) const {
  return std::any_of(pools_.begin(), pools_.end(), [&](const auto& pool) { return IsMeant(pool.second, which); });
}

std::vector<PoolId> KeptPools::LetGo(Which which, const OnlyPool& only) {
  std::vector<PoolId> gone;
  for (const auto& [pool, kept] : pools_) {
    if (Includes(only, pool) && IsMeant(kept, which)) gone.push_back(pool);
  }
  for (const PoolId pool : gone) {
    Unfix(pool);
    pools_.erase(pool);
    arenas_.SetKept(pool, false);
    arenas_.Release(pool);
  }
  Changed();
  return gone;
}

}  // namespace frugal
