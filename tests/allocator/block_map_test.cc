#include "allocator/blocks/block_map.h"

#include <random>
#include <unordered_map>
#include <vector>

#include "allocator/blocks/block_starts.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

// The same calls on the map and on the standard library's.
TEST(BlockMap, HoldsWhatAStandardMapHolds) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    // Far fewer addresses than steps, so that they are used again; enough of them for the table to grow.
    std::uniform_int_distribution<uint64_t> draw_grain(1, 3000);
    BlockFactory factory;
    BlockMap map;
    std::unordered_map<uint64_t, Block*> model;
    for (int step = 0; step < 20000; ++step) {
      const Address address(draw_grain(random) * 512);
      const auto known = model.find(address.value());
      ASSERT_EQ(map.Find(address), known == model.end() ? nullptr : known->second);
      if (known == model.end()) {
        Block* block = factory.Make(nullptr, address, kGrain, BlockState::kAllocated);
        map.Insert(block);
        model.emplace(address.value(), block);
      } else {
        ASSERT_EQ(map.Take(address), known->second);
        factory.Discard(known->second);
        model.erase(known);
      }
      ASSERT_EQ(map.size(), model.size());
    }
    for (const auto& [address, block] : model) EXPECT_EQ(map.Take(Address(address)), block);
    EXPECT_EQ(map.size(), 0u);
  }
}

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
