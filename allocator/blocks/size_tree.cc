#include "allocator/blocks/size_tree.h"

namespace frugal {
namespace {

// A node's is above those of its children. No two blocks have the same, since each step can be undone. A product alone
// keeps the order of addresses that lie evenly: 2,000 of them 334 MiB apart made a tree 1,007 deep.
uint64_t Priority(const Block& block) {
  uint64_t mixed = block.address.value();
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

}  // namespace

void SizeTree::InsertAmongOthers(Block* block) {
  const uint64_t priority = Priority(*block);
  Block** link = &root_;
  while (*link != nullptr && Priority(**link) > priority) {
    link = Precedes(*block, **link) ? &(*link)->links.left : &(*link)->links.right;
  }
  // The nodes from here on go to either side of the new one.
  Block* rest = *link;
  *link = block;
  Block** before = &block->links.left;
  Block** after = &block->links.right;
  while (rest != nullptr) {
    if (Precedes(*rest, *block)) {
      *before = rest;
      before = &rest->links.right;
      rest = *before;
    } else {
      *after = rest;
      after = &rest->links.left;
      rest = *after;
    }
  }
  *before = nullptr;
  *after = nullptr;
}

void SizeTree::RemoveFromOthers(Block* block) {
  Block** link = &root_;
  while (*link != block) link = Precedes(*block, **link) ? &(*link)->links.left : &(*link)->links.right;
  Block* before = block->links.left;
  Block* after = block->links.right;
  while (before != nullptr && after != nullptr) {
    if (Priority(*before) > Priority(*after)) {
      *link = before;
      link = &before->links.right;
      before = *link;
    } else {
      *link = after;
      link = &after->links.left;
      after = *link;
    }
  }
  *link = before != nullptr ? before : after;
}

Block* SizeTree::Largest() const {
  Block* node = root_;
  while (node->links.right != nullptr) node = node->links.right;
  return node;
}

}  // namespace frugal
