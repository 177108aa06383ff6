// Free blocks in the order of size and, among equals, of address.

#pragma once

#include "allocator/blocks/block.h"
#include "allocator/port/units.h"

namespace frugal {

// A treap: a search tree whose balance comes from a hash of the addresses, so that a node needs nothing but two links.
// O(log n) expected. Not thread-safe.
class SizeTree {
 public:
  // The order.
  static bool Precedes(const Block& a, const Block& b) {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }

  bool empty() const { return root_ == nullptr; }

  // A bin of FreeIndex holds most often one block or none: what that takes is in the callers.
  void Insert(Block* block) {
    if (root_ != nullptr) return InsertAmongOthers(block);
    block->links = {nullptr, nullptr};
    root_ = block;
  }
  // REQUIRES: `block` is in the tree, with the size and address that it was inserted with.
  void Remove(Block* block) {
    if (!HoldsOnly(block)) return RemoveFromOthers(block);
    root_ = nullptr;
  }

  // The first of at least `size`; null: none.
  Block* BestFit(Bytes size) const {
    Block* best = nullptr;
    for (Block* node = root_; node != nullptr;) {
      const bool fits = node->size >= size;
      if (fits) best = node;
      node = fits ? node->links.left : node->links.right;
    }
    return best;
  }
  // REQUIRES, for both: not empty.
  Block* Smallest() const {
    Block* node = root_;
    while (node->links.left != nullptr) node = node->links.left;
    return node;
  }
  Block* Largest() const;

  // f(Block*) from the largest block down, until it returns false; returns whether it never did.
  template <typename F>
  bool ForEachFromLargest(F&& f) const {
    return Visit(root_, f);
  }

 private:
  bool HoldsOnly(const Block* block) const {
    return root_ == block && block->links.left == nullptr && block->links.right == nullptr;
  }
  void InsertAmongOthers(Block* block);
  void RemoveFromOthers(Block* block);
  template <typename F>
  static bool Visit(Block* node, F& f) {
    if (node == nullptr) return true;
    return Visit(node->links.right, f) && f(node) && Visit(node->links.left, f);
  }

  Block* root_ = nullptr;
};

}  // namespace frugal
