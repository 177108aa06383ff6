// Free blocks in the order of size and, among equals, of address.

#ifndef FRUGAL_ALLOCATOR_BLOCKS_SIZE_TREE_H_
#define FRUGAL_ALLOCATOR_BLOCKS_SIZE_TREE_H_

#include "allocator/blocks/block.h"
#include "allocator/port/units.h"

namespace frugal {

// A treap: a search tree whose balance comes from a hash of the addresses, so that a node needs nothing but two links.
// O(log n) expected. Not thread-safe.
class SizeTree {
 public:
  bool empty() const { return root_ == nullptr; }
  bool HoldsOnly(const Block* block) const {
    return root_ == block && block->links.left == nullptr && block->links.right == nullptr;
  }

  void Insert(Block* block);
  // REQUIRES: `block` is in the tree, with the size and address that it was inserted with.
  void Remove(Block* block);

  // The first of at least `size`; null: none.
  Block* BestFit(Bytes size) const;
  // REQUIRES, for both: not empty.
  Block* Smallest() const;
  Block* Largest() const;

  // f(Block*) from the largest block down, until it returns false; returns whether it never did.
  template <typename F>
  bool ForEachFromLargest(F&& f) const {
    return Visit(root_, f);
  }

 private:
  template <typename F>
  static bool Visit(Block* node, F& f) {
    if (node == nullptr) return true;
    return Visit(node->links.right, f) && f(node) && Visit(node->links.left, f);
  }

  Block* root_ = nullptr;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_SIZE_TREE_H_
