// All arenas of a device: one for each stream and size group that was asked for.

#ifndef FRUGAL_ALLOCATOR_ARENA_SET_H_
#define FRUGAL_ALLOCATOR_ARENA_SET_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/arena.h"

namespace frugal {

// Not thread-safe.
class ArenaSet {
 public:
  explicit ArenaSet(Ledger& ledger) : ledger_(ledger) {}

  Arena& Get(Stream stream, SizeGroup group) {
    std::unique_ptr<Arena>& arena = by_key_[{stream, group}];
    if (arena == nullptr) {
      arena = std::make_unique<Arena>(stream, group, blocks_, ledger_);
      all_.push_back(arena.get());
    }
    return *arena;
  }

  // In the order in which they were first asked for.
  const std::vector<Arena*>& all() const { return all_; }

 private:
  Ledger& ledger_;
  BlockFactory blocks_;
  absl::flat_hash_map<std::pair<Stream, SizeGroup>, std::unique_ptr<Arena>> by_key_;
  std::vector<Arena*> all_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_ARENA_SET_H_
