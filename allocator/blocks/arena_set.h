// All arenas of a device: one for each stream, size class and source that was asked for.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/size_class.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/port/memory_source.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/pool_traits.h"

namespace frugal {

// An arena stays with its clock, which may go on to another stream when its own has ended. So free blocks of a pool
// serve that pool alone, while their handles move like all others. Not thread-safe.
class ArenaSet {
 public:
  // `can_move`: else all arenas are of segments.
  ArenaSet(bool can_move, StreamClocks& clocks, Ledger& ledger)
      : can_move_(can_move), clocks_(clocks), ledger_(ledger) {}

  // The program names the stream at this moment.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Arena& Get(Stream stream, SizeClass size_class) {
    Arena*& recent = recent_[RecentSlot(stream, size_class)];
    if (recent == nullptr || recent->clock().stream() != stream || recent->size_class() != size_class) [[unlikely]] {
      Arena& arena = Find(stream, size_class, MemorySource());
      // The others are named each time.
      if (!stream.lasts()) return arena;
      recent = &arena;
    }
    return *recent;
  }

  Arena& Get(Stream stream, SizeClass size_class, MemorySource source) {
    const bool is_same = latest_ != nullptr && latest_->clock().stream() == stream &&
                         latest_->size_class() == size_class && latest_->source() == source;
    if (is_same) return *latest_;
    Arena& arena = Find(stream, size_class, source);
    if (stream.lasts()) latest_ = &arena;
    return arena;
  }
  // Of the pool's arenas from now on.
  void SetTraits(PoolId pool, const PoolTraits& traits) {
    traits_[pool] = traits;
    for (Arena* arena : all_) {
      if (arena->pool() == pool) arena->SetTraits(traits);
    }
  }
  // Whether what graphs may read of the pool stays; see KeptPools.
  void SetKept(PoolId pool, bool value) {
    value ? static_cast<void>(kept_.insert(pool)) : static_cast<void>(kept_.erase(pool));
    for (Arena* arena : all_) {
      if (arena->pool() == pool) arena->SetKept(value);
    }
  }
  // Nobody holds the pool any more. Its arenas go to later pools as soon as nothing in them is in use, since ranges of
  // addresses are for good.
  void Release(PoolId pool) {
    traits_.erase(pool);
    latest_ = nullptr;
    for (auto it = by_key_.begin(); it != by_key_.end();) {
      if (const auto here = it++; std::get<MemorySource>(here->first).pool == pool) {
        released_.push_back(std::move(here->second));
        by_key_.erase(here);
      }
    }
  }

  // The arena that has the smallest free block of at least `size` among those of the same stream and source, `arena`
  // itself before all others; null: none has one.
  Arena* WithRoom(Arena& arena, Bytes size) const {
    if (arena.free_blocks().BestFit(size) != nullptr) return &arena;
    return Smallest(arena.clock(), arena.source(), size);
  }
  // The same, or else one of segments of the same stream and pool.
  Arena* WithAnyRoom(Arena& arena, Bytes size) const {
    Arena* const same = WithRoom(arena, size);
    return same != nullptr ? same : Smallest(arena.clock(), {arena.pool(), MemoryKind::kSegment}, size);
  }

  // Whether memory is mapped for the pool.
  bool HasMemoryOf(PoolId pool) const {
    return std::any_of(all_.begin(), all_.end(), [pool](const Arena* arena) {
      return arena->pool() == pool && (arena->free_blocks().size() > 0 || arena->IsInUse());
    });
  }

  // In the order in which they were first asked for.
  const std::vector<Arena*>& all() const { return all_; }
  const std::vector<Arena*>& mapped() const { return mapped_; }
  const std::vector<Arena*>& segments() const { return segments_; }

  // null: it lies in none.
  const Extent* ExtentWith(Address address) const {
    for (const Arena* arena : all_) {
      for (const std::unique_ptr<Extent>& extent : arena->extents()) {
        if (extent->Contains(address)) return extent.get();
      }
    }
    return nullptr;
  }

  // The largest free block of all.
  Bytes LargestFree() const {
    Bytes largest;
    for (const Arena* arena : all_) largest = std::max(largest, arena->free_blocks().LargestSize());
    return largest;
  }

 private:
  static constexpr size_t kRecent = 128;

  // Streams are numbers or, on a GPU, pointers: their low bits alone say little.
  static size_t RecentSlot(Stream stream, SizeClass size_class) {
    return ((stream.id * 8 + static_cast<uint64_t>(size_class)) * 0x9e3779b97f4a7c15u) >>
           (64 - std::countr_zero(kRecent));
  }

  // null: none of these has a free block of at least `size`.
  Arena* Smallest(const StreamClock& clock, MemorySource source, Bytes size) const {
    Arena* best = nullptr;
    Bytes smallest = kUnlimited;
    for (const SizeClass size_class : kSizeClasses) {
      const auto found = by_key_.find({&clock, size_class, source});
      if (found == by_key_.end() || found->second == nullptr) continue;
      const Block* const block = found->second->free_blocks().BestFit(size);
      if (block == nullptr || block->size >= smallest) continue;
      best = found->second.get();
      smallest = block->size;
    }
    return best;
  }

  Arena& Find(Stream stream, SizeClass size_class, MemorySource source) {
    if (!can_move_) source.kind = MemoryKind::kSegment;
    StreamClock& clock = clocks_.Name(stream);
    std::unique_ptr<Arena>& arena = by_key_[{&clock, size_class, source}];
    if (arena != nullptr) return *arena;
    if (!source.pool.is_default()) arena = TakeReleased(clock, size_class, source.kind);
    if (arena == nullptr) {
      arena = std::make_unique<Arena>(clock, size_class, source.kind, blocks_, ledger_);
      all_.push_back(arena.get());
      (IsMapped(source.kind) ? mapped_ : segments_).push_back(arena.get());
    }
    arena->BelongTo(source.pool);
    const auto traits = traits_.find(source.pool);
    arena->SetTraits(traits == traits_.end() ? PoolTraits() : traits->second);
    arena->SetKept(kept_.contains(source.pool));
    return *arena;
  }

  // null: none of which nothing is in use. Segments are of their pool's source.
  std::unique_ptr<Arena> TakeReleased(const StreamClock& clock, SizeClass size_class, MemoryKind kind) {
    const auto found = std::find_if(released_.begin(), released_.end(), [&](const std::unique_ptr<Arena>& arena) {
      return &arena->clock() == &clock && arena->size_class() == size_class && arena->kind() == kind &&
             (IsMapped(kind) ? !arena->IsInUse() : arena->extents().empty());
    });
    if (found == released_.end()) return nullptr;
    std::unique_ptr<Arena> arena = std::move(*found);
    released_.erase(found);
    return arena;
  }

  const bool can_move_;
  StreamClocks& clocks_;
  Ledger& ledger_;
  BlockFactory blocks_;
  absl::flat_hash_map<std::tuple<const StreamClock*, SizeClass, MemorySource>, std::unique_ptr<Arena>> by_key_;
  absl::flat_hash_map<PoolId, PoolTraits> traits_;
  absl::flat_hash_set<PoolId> kept_;
  // Of pools that were released, whose numbers they keep meanwhile.
  std::vector<std::unique_ptr<Arena>> released_;
  // The latest found with the same hash: the hash table costs five times as much.
  std::array<Arena*, kRecent> recent_ = {};
  Arena* latest_ = nullptr;  // of those that a source was given for
  std::vector<Arena*> all_;
  std::vector<Arena*> mapped_;
  std::vector<Arena*> segments_;
};

}  // namespace frugal
