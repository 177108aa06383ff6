// In which pages of an extent a block starts.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/blocks/block.h"
#include "allocator/port/units.h"

namespace frugal {

// For each page the last block that starts in it: what a range of whole pages is asked for is whether one block covers
// it, and that is the last to start before the end of the range, if it starts no later than the range. So among small
// blocks, of which thousands start in a page, most come and go without a change here.
//
// Takes memory up to the last page in which a block ever started, 8.1 bytes a page, and not for the range that is
// reserved. O(1), but that LastUpTo may look at a word for each 8 GiB without a start. Not thread-safe.
class BlockStarts {
 public:
  // Of an extent that starts there; not necessarily at the start of a page.
  explicit BlockStarts(Address start) : first_page_(PageOf(start)) {}

  static bool AreInOnePage(Address a, Address b) { return PageOf(a) == PageOf(b); }

  // The block is in its list.
  void Add(Block* block) {
    const size_t page = IndexOf(block->address);
    Cover(page);
    if (last_[page] != nullptr && last_[page]->address > block->address) return;
    Enter(page, block);
  }
  // The block, still in its list, is about to leave it.
  void Remove(const Block* block) {
    const size_t page = IndexOf(block->address);
    if (last_[page] != block) return;
    if (block->previous != nullptr && AreInOnePage(block->previous->address, block->address)) {
      last_[page] = block->previous;
    } else {
      Leave(page);
    }
  }
  // `block` starts further up from now on, at `start`, and `front` where it did.
  void MoveUp(Block* block, Address start, Block* front) {
    if (AreInOnePage(front->address, start)) return;
    last_[IndexOf(front->address)] = front;
    const size_t page = IndexOf(start);
    Cover(page);
    if (last_[page] == nullptr) Enter(page, block);
  }
  // `block` starts further down from now on, at `start`, where another does that is no more.
  void MoveDown(Block* block, Address start) {
    if (AreInOnePage(block->address, start)) return;
    const size_t page = IndexOf(block->address);
    if (last_[page] == block) Leave(page);
    last_[IndexOf(start)] = block;
  }

  // The last block that starts in the page of `address`, or in the first page before it in which one starts. REQUIRES:
  // a block starts in the page in which the extent does.
  Block* LastUpTo(Address address) const {
    const size_t page = IndexOf(address);
    if (page >= last_.size()) return last_[LastMarkIn(words_in_use_.size() - 1)];
    if (last_[page] != nullptr) return last_[page];
    const size_t word = page / kWordBits;
    const uint64_t marks = marks_[word] & Below(page);
    if (marks != 0) return last_[word * kWordBits + Highest(marks)];
    const uint64_t words = words_in_use_[word / kWordBits] & Below(word);
    if (words != 0) return last_[LastMarkOf(word / kWordBits * kWordBits + Highest(words))];
    return last_[LastMarkIn(word / kWordBits - 1)];
  }
  // The last that starts in that very page; null: none.
  const Block* LastIn(Address address) const {
    return IndexOf(address) < last_.size() ? last_[IndexOf(address)] : nullptr;
  }
  // Up to the last in which a block ever started.
  size_t pages() const { return last_.size(); }
  // The number of pages in which a block starts.
  size_t CountPages() const {
    size_t count = 0;
    for (uint64_t marks : marks_) count += static_cast<size_t>(std::popcount(marks));
    return count;
  }

 private:
  static constexpr size_t kWordBits = 64;

  static uint64_t PageOf(Address address) { return address.value() / static_cast<uint64_t>(kPageSize.count()); }
  static uint64_t Bit(size_t index) { return uint64_t{1} << index % kWordBits; }
  static uint64_t Below(size_t index) { return Bit(index) - 1; }
  static size_t Highest(uint64_t word) { return static_cast<size_t>(std::bit_width(word)) - 1; }

  size_t IndexOf(Address address) const { return PageOf(address) - first_page_; }
  void Cover(size_t page) {
    if (page >= last_.size()) [[unlikely]]
      Grow(page + 1);
  }
  void Grow(size_t pages);
  void Enter(size_t page, Block* block) {
    last_[page] = block;
    const size_t word = page / kWordBits;
    marks_[word] |= Bit(page);
    words_in_use_[word / kWordBits] |= Bit(word);
  }
  void Leave(size_t page) {
    last_[page] = nullptr;
    const size_t word = page / kWordBits;
    marks_[word] &= ~Bit(page);
    if (marks_[word] == 0) words_in_use_[word / kWordBits] &= ~Bit(word);
  }
  // The last page that is marked in that word of marks, which is not 0.
  size_t LastMarkOf(size_t word) const { return word * kWordBits + Highest(marks_[word]); }
  // The last page that is marked in those of `words_in_use_`, up to `group`; the first has one.
  size_t LastMarkIn(size_t group) const {
    while (words_in_use_[group] == 0) --group;
    return LastMarkOf(group * kWordBits + Highest(words_in_use_[group]));
  }

  const uint64_t first_page_;
  std::vector<Block*> last_;            // to start in a page; null: none does
  std::vector<uint64_t> marks_;         // a bit for each page in which one starts
  std::vector<uint64_t> words_in_use_;  // a bit for each of those words that is not 0
};

}  // namespace frugal
