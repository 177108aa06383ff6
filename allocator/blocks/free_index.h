// The free blocks of an arena, ordered for best fit.

#ifndef FRUGAL_ALLOCATOR_BLOCKS_FREE_INDEX_H_
#define FRUGAL_ALLOCATOR_BLOCKS_FREE_INDEX_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "allocator/blocks/block.h"
#include "allocator/blocks/size_tree.h"
#include "allocator/port/units.h"

namespace frugal {

// Free blocks of one size. The first few are in the order of addresses: low ones are used first, which keeps the high
// end of a range free, where pages are easiest to take back. O(1). Not thread-safe.
class EqualBlocks {
 public:
  bool empty() const { return first_ == nullptr; }
  Block* first() const { return first_; }

  void Insert(Block* block) {
    Block* before = nullptr;
    Block* after = first_;
    for (int i = 0; i < kInOrder && after != nullptr && after->address < block->address; ++i) {
      before = after;
      after = after->links.right;
    }
    block->links = {before, after};
    (before != nullptr ? before->links.right : first_) = block;
    if (after != nullptr) after->links.left = block;
  }
  // REQUIRES: `block` is in here.
  void Remove(Block* block) {
    const auto [before, after] = block->links;
    (before != nullptr ? before->links.right : first_) = after;
    if (after != nullptr) after->links.left = before;
  }

 private:
  static constexpr int kInOrder = 8;

  Block* first_ = nullptr;
};

// Exact best fit: a bin for each size below 1 MiB, and above that 16 bins for each doubling, each a tree. A bitmap
// tells which have blocks. O(1) below 1 MiB; above, where blocks are few, O(log n) of the blocks of one bin. Among
// equals the lowest address first, below 1 MiB only nearly so. Not thread-safe.
class FreeIndex {
 public:
  void Insert(Block* block) {
    const size_t bin = BinOf(block->size);
    if (bin < kExactBins) {
      exact_[bin].Insert(block);
    } else {
      wide_[bin - kExactBins].Insert(block);
    }
    Mark(bin);
    ++size_;
  }

  void Remove(Block* block) {
    const size_t bin = BinOf(block->size);
    if (bin < kExactBins) {
      exact_[bin].Remove(block);
      if (exact_[bin].empty()) Unmark(bin);
    } else {
      wide_[bin - kExactBins].Remove(block);
      if (wide_[bin - kExactBins].empty()) Unmark(bin);
    }
    --size_;
  }

  // The block, which is in here, covers `size` bytes from `start` on from now on.
  void Resize(Block* block, Address start, Bytes size) {
    const bool keeps_place =
        IsSameWideBin(block->size, size) && wide_[BinOf(block->size) - kExactBins].HoldsOnly(block);
    if (!keeps_place) Remove(block);
    block->address = start;
    block->size = size;
    if (!keeps_place) Insert(block);
  }

  // The smallest free block of at least `size`; null: none.
  Block* BestFit(Bytes size) const {
    size_t bin = BinOf(size);
    if (bin >= kExactBins) {
      // Blocks of this bin may be smaller.
      if (Block* block = wide_[bin - kExactBins].BestFit(size); block != nullptr) return block;
      ++bin;
    }
    bin = FirstMarked(bin);
    if (bin < kExactBins) return exact_[bin].first();
    return bin == kBins ? nullptr : wide_[bin - kExactBins].Smallest();
  }

  Bytes LargestSize() const {
    const size_t bin = LastMarkedBefore(kBins);
    if (bin == kBins) return Bytes(0);
    return bin < kExactBins ? exact_[bin].first()->size : wide_[bin - kExactBins].Largest()->size;
  }
  size_t size() const { return size_; }

  // f(Block*) from the largest block down, until it returns false. Blocks below 1 MiB of one size come in any order.
  template <typename F>
  void ForEachFromLargest(F&& f) const {
    for (size_t bin = LastMarkedBefore(kBins); bin != kBins; bin = LastMarkedBefore(bin)) {
      if (bin >= kExactBins) {
        if (!wide_[bin - kExactBins].ForEachFromLargest(f)) return;
        continue;
      }
      for (Block* block = exact_[bin].first(); block != nullptr; block = block->links.right) {
        if (!f(block)) return;
      }
    }
  }

 private:
  static constexpr size_t kExactBits = 11;
  static constexpr size_t kExactBins = size_t{1} << kExactBits;  // by the number of grains; the first is never used
  static constexpr size_t kStepBits = 4;
  static constexpr size_t kStepsPerDoubling = size_t{1} << kStepBits;
  static constexpr size_t kGrainBits = 9;
  static_assert(kGrain == Bytes(1 << kGrainBits));
  static constexpr size_t kBins = kExactBins + (63 - kGrainBits - kExactBits) * kStepsPerDoubling;
  static constexpr size_t kWordBits = 64;
  static constexpr size_t kWords = kBins / kWordBits + 1;
  static_assert(kWords <= kWordBits);

  static size_t BinOf(Bytes size) {
    const uint64_t grains = static_cast<uint64_t>(size.count()) >> kGrainBits;
    if (grains < kExactBins) return grains;
    const size_t doublings = static_cast<size_t>(std::bit_width(grains)) - 1;
    const size_t step = (grains >> (doublings - kStepBits)) % kStepsPerDoubling;
    return kExactBins + (doublings - kExactBits) * kStepsPerDoubling + step;
  }
  // Whether both fall into one bin above 1 MiB.
  static bool IsSameWideBin(Bytes a, Bytes b) {
    const uint64_t grains = static_cast<uint64_t>(a.count()) >> kGrainBits;
    if (grains < kExactBins) return false;
    const size_t step_bits = static_cast<size_t>(std::bit_width(grains)) - 1 - kStepBits;
    return grains >> step_bits == static_cast<uint64_t>(b.count()) >> kGrainBits >> step_bits;
  }
  static size_t Highest(uint64_t word) { return static_cast<size_t>(std::bit_width(word)) - 1; }
  static size_t Lowest(uint64_t word) { return static_cast<size_t>(std::countr_zero(word)); }

  void Mark(size_t bin) {
    marked_[bin / kWordBits] |= uint64_t{1} << bin % kWordBits;
    words_in_use_ |= uint64_t{1} << bin / kWordBits;
  }
  void Unmark(size_t bin) {
    marked_[bin / kWordBits] &= ~(uint64_t{1} << bin % kWordBits);
    if (marked_[bin / kWordBits] == 0) words_in_use_ &= ~(uint64_t{1} << bin / kWordBits);
  }
  // The first marked bin from `bin` on; kBins: none.
  size_t FirstMarked(size_t bin) const {
    const size_t word = bin / kWordBits;
    const uint64_t here = marked_[word] & ~uint64_t{0} << bin % kWordBits;
    if (here != 0) return word * kWordBits + Lowest(here);
    const uint64_t later = words_in_use_ & ~uint64_t{1} << word;
    return later == 0 ? kBins : Lowest(later) * kWordBits + Lowest(marked_[Lowest(later)]);
  }
  // The last marked bin before `bin`; kBins: none.
  size_t LastMarkedBefore(size_t bin) const {
    const size_t word = bin / kWordBits;
    const uint64_t here = marked_[word] & ~(~uint64_t{0} << bin % kWordBits);
    if (here != 0) return word * kWordBits + Highest(here);
    const uint64_t earlier = words_in_use_ & ~(~uint64_t{0} << word);
    return earlier == 0 ? kBins : Highest(earlier) * kWordBits + Highest(marked_[Highest(earlier)]);
  }

  std::array<EqualBlocks, kExactBins> exact_;
  std::array<SizeTree, kBins - kExactBins> wide_;
  std::array<uint64_t, kWords> marked_ = {};  // a bit for each bin
  uint64_t words_in_use_ = 0;                 // a bit for each of those words that is not 0
  size_t size_ = 0;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_FREE_INDEX_H_
