#include "allocator/blocks/block_starts.h"

#include "gtest/gtest.h"

namespace frugal {
namespace {

TEST(BlockStartsOfAReservedRange, TakeMemoryForWhatIsTouchedAlone) {
  BlockStarts starts{Address(uint64_t{1} << 40)};
  BlockFactory blocks;
  Block* const first = blocks.Make(nullptr, Address(uint64_t{1} << 40), MiB(64), BlockState::kFree);
  Block* const second = blocks.Make(nullptr, first->end(), GiB(500), BlockState::kHole);
  starts.Add(first);
  starts.Add(second);
  EXPECT_EQ(starts.pages(), 33u);
  EXPECT_EQ(starts.LastUpTo(second->end() - Bytes(1)), second);
}

}  // namespace
}  // namespace frugal
