// All arenas of a device: one for each stream and size class that was asked for.

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

#include "absl/base/attributes.h"
#include "absl/container/flat_hash_map.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/stream_clocks.h"

namespace frugal {

// An arena stays with its clock, which may go on to another stream when its own has ended. Not thread-safe.
class ArenaSet {
 public:
  ArenaSet(StreamClocks& clocks, Ledger& ledger) : clocks_(clocks), ledger_(ledger) {}

  // The program names the stream at this moment.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Arena& Get(Stream stream, SizeClass size_class) {
    Arena*& recent = recent_[RecentSlot(stream, size_class)];
    if (recent == nullptr || recent->clock().stream() != stream || recent->size_class() != size_class) [[unlikely]] {
      Arena& arena = Find(stream, size_class);
      // The others are named each time.
      if (!stream.lasts()) return arena;
      recent = &arena;
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
  static size_t RecentSlot(Stream stream, SizeClass size_class) {
    return ((stream.id * 4 + static_cast<uint64_t>(size_class)) * 0x9e3779b97f4a7c15u) >>
           (64 - std::countr_zero(kRecent));
  }

  Arena& Find(Stream stream, SizeClass size_class) {
    StreamClock& clock = clocks_.Name(stream);
    std::unique_ptr<Arena>& arena = by_key_[{&clock, size_class}];
    if (arena == nullptr) {
      arena = std::make_unique<Arena>(clock, size_class, blocks_, ledger_);
      all_.push_back(arena.get());
    }
    return *arena;
  }

  StreamClocks& clocks_;
  Ledger& ledger_;
  BlockFactory blocks_;
  absl::flat_hash_map<std::pair<const StreamClock*, SizeClass>, std::unique_ptr<Arena>> by_key_;
  // The latest found with the same hash: the hash table costs five times as much.
  std::array<Arena*, kRecent> recent_ = {};
  std::vector<Arena*> all_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_ARENA_SET_H_
