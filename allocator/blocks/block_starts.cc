#include "allocator/blocks/block_starts.h"

namespace frugal {

void BlockStarts::Grow(size_t pages) {
  last_.resize(pages);
  marks_.resize((pages - 1) / kWordBits + 1);
  words_in_use_.resize((marks_.size() - 1) / kWordBits + 1);
}

}  // namespace frugal
