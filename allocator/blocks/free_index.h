// The free blocks of an arena, ordered for best fit.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

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
//
// Blocks are cut from the rest of a handle and joined with it again, over and over: so the block of 1 MiB and more that
// was resized last is in no bin, and grows and shrinks for nothing. Its bins took 150 instructions of an
// allocation and its free of 20 MiB.
class FreeIndex {
 public:
  void Insert(Block* block) {
    InsertInBin(block);
    ++size_;
  }

  void Remove(Block* block) {
    TakeOut(block);
    --size_;
  }

  // The block, which is in here, covers `size` bytes from `start` on from now on.
  void Resize(Block* block, Address start, Bytes size) {
    if (block != resized_ || size < kLeastWide) [[unlikely]]
      return ResizeInBins(block, start, size);
    block->address = start;
    block->size = size;
  }

  // The smallest free block of at least `size`; null: none.
  Block* BestFit(Bytes size) const {
    size_t bin = BinOf(size);
    Block* best = nullptr;
    if (bin >= kExactBins) {
      // Blocks of this bin may be smaller.
      best = wide_[bin - kExactBins].BestFit(size);
      ++bin;
    }
    if (best == nullptr) {
      bin = FirstMarked(bin);
      if (bin < kExactBins) return exact_[bin].first();
      if (bin != kBins) best = wide_[bin - kExactBins].Smallest();
    }
    const bool fits = resized_ != nullptr && resized_->size >= size;
    return fits && (best == nullptr || SizeTree::Precedes(*resized_, *best)) ? resized_ : best;
  }

  Bytes LargestSize() const {
    const Bytes resized = resized_ != nullptr ? resized_->size : Bytes(0);
    const size_t bin = LastMarkedBefore(kBins);
    if (bin == kBins) return resized;
    return std::max(resized, bin < kExactBins ? exact_[bin].first()->size : wide_[bin - kExactBins].Largest()->size);
  }
  size_t size() const { return size_; }

  // f(Block*) from the largest block down, until it returns false. Blocks below 1 MiB of one size come in any order.
  template <typename F>
  void ForEachFromLargest(F&& f) const {
    Block* resized = resized_;  // unless f was called with it
    const auto visit = [&f, &resized](Block* block) {
      if (resized != nullptr && SizeTree::Precedes(*block, *resized) && !f(std::exchange(resized, nullptr)))
        return false;
      return static_cast<bool>(f(block));
    };
    if (VisitBins(visit) && resized != nullptr) f(resized);
  }

 private:
  static constexpr size_t kExactBits = 11;
  static constexpr size_t kExactBins = size_t{1} << kExactBits;  // by the number of grains; the first is never used
  static constexpr size_t kStepBits = 4;
  static constexpr size_t kStepsPerDoubling = size_t{1} << kStepBits;
  static constexpr size_t kGrainBits = 9;
  static_assert(kGrain == Bytes(1 << kGrainBits));
  static constexpr Bytes kLeastWide = kGrain * static_cast<int64_t>(kExactBins);
  static constexpr size_t kBins = kExactBins + (63 - kGrainBits - kExactBits) * kStepsPerDoubling;
  static constexpr size_t kWordBits = 64;
  static constexpr size_t kWords = kBins / kWordBits + 1;
  static_assert(kWords <= kWordBits);

  static size_t BinOf(Bytes size) {
    const uint64_t grains = static_cast<uint64_t>(size.count()) >> kGrainBits;
    if (grains < kExactBins) return grains;
    const size_t doublings = static_cast<size_t>(std::bit_width(grains)) - 1;
    // The highest bit of the quotient is always 1.
    return kExactBins + (doublings - kExactBits - 1) * kStepsPerDoubling + (grains >> (doublings - kStepBits));
  }
  static size_t Highest(uint64_t word) { return static_cast<size_t>(std::bit_width(word)) - 1; }
  static size_t Lowest(uint64_t word) { return static_cast<size_t>(std::countr_zero(word)); }

  void InsertInBin(Block* block) {
    const size_t bin = BinOf(block->size);
    if (bin < kExactBins) {
      exact_[bin].Insert(block);
    } else {
      wide_[bin - kExactBins].Insert(block);
    }
    Mark(bin);
  }
  void TakeOut(Block* block) {
    if (block == resized_) {
      resized_ = nullptr;
      return;
    }
    const size_t bin = BinOf(block->size);
    if (bin < kExactBins) {
      exact_[bin].Remove(block);
      if (exact_[bin].empty()) Unmark(bin);
    } else {
      wide_[bin - kExactBins].Remove(block);
      if (wide_[bin - kExactBins].empty()) Unmark(bin);
    }
  }
  // Resizes a block that is in a bin, or will be.
  void ResizeInBins(Block* block, Address start, Bytes size);
  // As ForEachFromLargest, of the blocks in bins; returns whether f never returned false.
  template <typename F>
  bool VisitBins(const F& f) const {
    for (size_t bin = LastMarkedBefore(kBins); bin != kBins; bin = LastMarkedBefore(bin)) {
      if (bin >= kExactBins) {
        if (!wide_[bin - kExactBins].ForEachFromLargest(f)) return false;
        continue;
      }
      for (Block* block = exact_[bin].first(); block != nullptr; block = block->links.right) {
        if (!f(block)) return false;
      }
    }
    return true;
  }
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
  Block* resized_ = nullptr;                  // of at least kLeastWide, in no bin; null: all are in theirs
  size_t size_ = 0;
};

}  // namespace frugal
