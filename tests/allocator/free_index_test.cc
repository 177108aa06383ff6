#include "allocator/blocks/free_index.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace frugal {
namespace {

TEST(SizeTreeOfEqualBlocks, IsShallowHoweverEvenlyTheyLie) {
  for (int64_t apart : {MiB(2).count(), MiB(334).count(), GiB(1).count()}) {
    constexpr int kBlocks = 2000;
    BlockFactory factory;
    SizeTree tree;
    std::vector<Block*> blocks;
    for (int64_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(factory.Make(nullptr, Address(uint64_t{1} << 40) + Bytes(apart * i), MiB(2), BlockState::kFree));
      tree.Insert(blocks.back());
    }
    std::set<Block*> level(blocks.begin(), blocks.end());
    for (Block* block : blocks) {
      level.erase(block->links.left);
      level.erase(block->links.right);
    }
    ASSERT_EQ(level.size(), 1u) << "the root alone is nobody's child";
    int depth = 0;
    for (; !level.empty(); ++depth) {
      std::set<Block*> below;
      for (Block* block : level) below.insert({block->links.left, block->links.right});
      below.erase(nullptr);
      level = below;
    }
    // Of random priorities: 25 on average.
    EXPECT_LE(depth, 40) << apart << " apart";
  }
}

// The same calls on the index and on an ordered set.
class ModelledIndex {
 public:
  explicit ModelledIndex(uint32_t seed) : random_(seed) {}

  void Step() {
    const size_t kind = Draw(4);
    if (kind < 2 && blocks_.size() < 400) return Add();
    if (blocks_.empty()) return;
    const size_t which = Draw(blocks_.size());
    if (kind == 2) return Drop(which);
    // Often the same one, as a rest that blocks are cut from is.
    Resize(blocks_[Draw(2) == 0 ? 0 : which]);
  }

  void Compare() {
    EXPECT_EQ(index_.size(), model_.size());
    EXPECT_EQ(index_.LargestSize(), model_.empty() ? Bytes(0) : std::get<Bytes>(*model_.rbegin()));
    const Bytes wanted = DrawSize();
    const auto expected = model_.lower_bound({wanted, Address(), nullptr});
    Block* const found = index_.BestFit(wanted);
    ASSERT_EQ(found == nullptr, expected == model_.end());
    if (found == nullptr) return;
    EXPECT_EQ(found->size, std::get<Bytes>(*expected));
    if (found->size >= MiB(1)) {
      EXPECT_EQ(found, std::get<Block*>(*expected));
    }
  }

  void CompareOrder() const {
    std::vector<Bytes> sizes;
    std::set<Block*> visited;
    auto expected = model_.rbegin();
    index_.ForEachFromLargest([&](Block* block) {
      if (block->size >= MiB(1)) {
        EXPECT_EQ(block, std::get<Block*>(*expected++));
      }
      sizes.push_back(block->size);
      visited.insert(block);
      return true;
    });
    EXPECT_TRUE(std::is_sorted(sizes.rbegin(), sizes.rend()));
    EXPECT_EQ(sizes.size(), model_.size());
    EXPECT_EQ(visited, std::set<Block*>(blocks_.begin(), blocks_.end()));
  }

 private:
  using Entry = std::tuple<Bytes, Address, Block*>;

  size_t Draw(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }
  // Often the same, so that bins are shared; of all magnitudes.
  Bytes DrawSize() {
    const int64_t magnitude = int64_t{1} << Draw(26);
    return kGrain * (magnitude + static_cast<int64_t>(Draw(3)));
  }
  // Addresses that no two blocks share.
  Address DrawAddress() { return Address((Draw(1u << 20) << 20 | ++addresses_) * 512); }
  static Entry EntryOf(Block* block) { return {block->size, block->address, block}; }

  void Add() {
    Block* block = factory_.Make(nullptr, DrawAddress(), DrawSize(), BlockState::kFree);
    index_.Insert(block);
    blocks_.push_back(block);
    model_.insert(EntryOf(block));
  }
  void Drop(size_t which) {
    Block* block = blocks_[which];
    model_.erase(EntryOf(block));
    index_.Remove(block);
    factory_.Discard(block);
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void Resize(Block* block) {
    model_.erase(EntryOf(block));
    // By little, so that it may keep its place, or by much.
    const Bytes size = Draw(2) == 0 ? block->size + kGrain : DrawSize();
    index_.Resize(block, DrawAddress(), size);
    model_.insert(EntryOf(block));
  }

  std::mt19937 random_;
  uint64_t addresses_ = 0;
  BlockFactory factory_;
  FreeIndex index_;
  std::vector<Block*> blocks_;
  std::set<Entry> model_;
};

TEST(FreeIndexAgainstAnOrderedSet, FindsTheSame) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ModelledIndex index(seed);
    for (int step = 0; step < 5000; ++step) {
      index.Step();
      index.Compare();
      if (step % 100 == 0) index.CompareOrder();
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace frugal
