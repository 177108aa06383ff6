// All arenas of a device: one for each stream and size group that was asked for.

#ifndef FRUGAL_ALLOCATOR_BLOCKS_ARENA_SET_H_
#define FRUGAL_ALLOCATOR_BLOCKS_ARENA_SET_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/stream_clocks.h"

namespace frugal {

// Not thread-safe.
class ArenaSet {
 public:
  ArenaSet(StreamClocks& clocks, Ledger& ledger) : clocks_(clocks), ledger_(ledger) {}

  Arena& Get(Stream stream, SizeGroup group) {
    Arena*& recent = recent_[RecentSlot(stream, group)];
    if (recent == nullptr || recent->clock().stream() != stream || recent->group() != group) [[unlikely]] {
      recent = &Find(stream, group);
    }
    return *recent;
  }

  // In the order in which they were first asked for.
  const std::vector<Arena*>& all() const { return all_; }

  // The largest free block of all.
  Bytes LargestFree() const {
    Bytes largest;
    for (const Arena* arena : all_) largest = std::max(largest, arena->free_blocks().LargestSize());
    return largest;
  }

 private:
  static constexpr size_t kRecent = 64;

  // Streams are numbers or, on a GPU, pointers: their low bits alone say little.
  static size_t RecentSlot(Stream stream, SizeGroup group) {
    return ((stream.id * 2 + static_cast<uint64_t>(group)) * 0x9e3779b97f4a7c15u) >> (64 - std::countr_zero(kRecent));
  }

  Arena& Find(Stream stream, SizeGroup group) {
    std::unique_ptr<Arena>& arena = by_key_[{stream, group}];
    if (arena == nullptr) {
      arena = std::make_unique<Arena>(clocks_.Get(stream), group, blocks_, ledger_);
      all_.push_back(arena.get());
    }
    return *arena;
  }

  StreamClocks& clocks_;
  Ledger& ledger_;
  BlockFactory blocks_;
  absl::flat_hash_map<std::pair<Stream, SizeGroup>, std::unique_ptr<Arena>> by_key_;
  // The latest found with the same hash: the hash table costs five times as much.
  std::array<Arena*, kRecent> recent_ = {};
  std::vector<Arena*> all_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_ARENA_SET_H_
