// The blocks that are handed out, by address.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/attributes.h"
#include "allocator/blocks/block.h"
#include "allocator/port/units.h"

namespace frugal {

// A hash table of nothing but pointers, at most half full: 16 to 32 bytes a block. The addresses are in the blocks,
// whose lines of cache the caller wants next anyway. Not thread-safe.
class BlockMap {
 public:
  BlockMap() { Reserve(kLeastSlots); }

  size_t size() const { return size_; }
  bool Contains(Address address) const { return Find(address) != nullptr; }
  // null: none starts there.
  Block* Find(Address address) const { return slots_[SlotOf(address)]; }

  // REQUIRES: none that starts at the same address is in here.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Insert(Block* block) {
    if (++size_ > (mask_ + 1) / 2) [[unlikely]]
      Reserve((mask_ + 1) * 2);
    slots_[SlotOf(block->address)] = block;
  }

  // Takes the block out and returns it; null: none starts there.
  Block* Take(Address address) {
    size_t empty = SlotOf(address);
    Block* const taken = slots_[empty];
    if (taken == nullptr) return nullptr;
    --size_;
    // A block further on may be there only because this place was taken.
    for (size_t slot = Next(empty); slots_[slot] != nullptr; slot = Next(slot)) {
      const size_t home = Home(slots_[slot]->address);
      if (Distance(home, slot) < Distance(empty, slot)) continue;
      slots_[empty] = slots_[slot];
      empty = slot;
    }
    slots_[empty] = nullptr;
    return taken;
  }

 private:
  static constexpr size_t kLeastSlots = 1024;

  // Where a block is searched first. Multiplication spreads blocks that lie side by side evenly.
  size_t Home(Address address) const {
    return (address.value() / static_cast<uint64_t>(kGrain.count()) * 0x9e3779b97f4a7c15u) >> shift_;
  }
  size_t Next(size_t slot) const { return (slot + 1) & mask_; }
  size_t Distance(size_t from, size_t to) const { return (to - from) & mask_; }
  // Where the block at `address` is, or would be.
  size_t SlotOf(Address address) const {
    size_t slot = Home(address);
    while (slots_[slot] != nullptr && slots_[slot]->address != address) slot = Next(slot);
    return slot;
  }
  void Reserve(size_t slots) {
    std::vector<Block*> old(slots, nullptr);
    old.swap(slots_);
    mask_ = slots - 1;
    shift_ = 64 - std::countr_zero(slots);
    for (Block* block : old) {
      if (block != nullptr) slots_[SlotOf(block->address)] = block;
    }
  }

  std::vector<Block*> slots_;  // a power of two of them
  size_t mask_ = 0;
  int shift_ = 0;
  size_t size_ = 0;
};

}  // namespace frugal
