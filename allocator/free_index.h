// The free blocks of an arena, ordered for best fit.

#ifndef FRUGAL_ALLOCATOR_FREE_INDEX_H_
#define FRUGAL_ALLOCATOR_FREE_INDEX_H_

#include <cstdint>

#include "absl/container/btree_set.h"
#include "allocator/block.h"
#include "allocator/units.h"

namespace frugal {

// Exact best fit, the lowest address first among equals: it keeps the high end of a range free, where pages are
// easiest to take back. O(log n) in a B-tree, whose few wide nodes stay in cache at the hundreds of free blocks
// that training holds. Not thread-safe.
class FreeIndex {
 public:
  void Insert(Block* block) { entries_.insert(EntryOf(block)); }
  void Remove(Block* block) { entries_.erase(EntryOf(block)); }

  // The smallest free block of at least `size`; null: none.
  Block* BestFit(Bytes size) const {
    auto it = entries_.lower_bound(Entry{size, Address(), nullptr});
    return it == entries_.end() ? nullptr : it->block;
  }

  Bytes LargestSize() const { return entries_.empty() ? Bytes(0) : entries_.rbegin()->size; }
  size_t size() const { return entries_.size(); }

  // f(Block*) from the largest block down, until it returns false.
  template <typename F>
  void ForEachFromLargest(F&& f) const {
    for (auto it = entries_.rbegin(); it != entries_.rend(); ++it) {
      if (!f(it->block)) return;
    }
  }

 private:
  struct Entry {
    Bytes size;
    Address address;
    Block* block;
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.size != b.size ? a.size < b.size : a.address < b.address;
    }
  };
  static Entry EntryOf(Block* block) { return Entry{block->size, block->address, block}; }

  absl::btree_set<Entry> entries_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_FREE_INDEX_H_
