#include "allocator/blocks/free_index.h"

namespace frugal {

void FreeIndex::ResizeInBins(Block* block, Address start, Bytes size) {
  TakeOut(block);
  block->address = start;
  block->size = size;
  if (size < kLeastWide) return InsertInBin(block);
  if (resized_ != nullptr) InsertInBin(resized_);
  resized_ = block;
}

}  // namespace frugal
