#include "allocator/blocks/block_starts.h"

#include <memory>
#include <random>
#include <vector>

#include "allocator/blocks/arena_set.h"
#include "cuda/simulated/simulated_device.h"
#include "gtest/gtest.h"
#include "tests/allocator/held_locks.h"

namespace frugal {
namespace {

constexpr int64_t kReservedPages = GiB(576).count() / kPageSize.count();

// An arena of one reserved range, whose pages are filled by hand.
class FilledRange {
 public:
  explicit FilledRange(SizeClass group) : arena_(arenas_.Get(Stream{1}, group)) {
    arena_.AddExtent(Extent::Kind::kMovable, Address(uint64_t{1} << 40), Pages(kReservedPages).bytes());
  }

  Arena& arena() { return arena_; }
  Extent& extent() { return *arena_.extents().front(); }
  PageRun Run(int64_t first, int64_t count) { return PageRun{&extent(), first, count}; }

  void Fill(int64_t first, int64_t count) {
    for (int64_t page = first; page < first + count; ++page) {
      extent().pages().MutableView(page) = View{View::State::kLive, 0, nullptr};
    }
    arena_.Fill(Run(first, count));
  }
  void Vacate(Block* whole, PageRun run) {
    for (int64_t page = run.first; page < run.end(); ++page) extent().pages().MutableView(page) = View();
    arena_.Vacate(whole, run);
  }

 private:
  sim::SimulatedDevice device_{{.memory = MiB(64)}};
  Ledger ledger_;
  HeldLocks locks_;
  StreamClocks clocks_{device_, ledger_, nullptr, locks_.lock()};
  ArenaSet arenas_{clocks_, ledger_};
  Arena& arena_;
};

TEST(BlockOver, IsTheOneBlockThatCoversTheRun) {
  FilledRange range(SizeClass::kLarge);
  range.Fill(0, 8);
  Block* const first = range.arena().Take(kPageSize * 2 + KiB(4));
  Block* const free = first->next;
  EXPECT_EQ(range.extent().BlockOver(range.Run(0, 1)), first);
  EXPECT_EQ(range.extent().BlockOver(range.Run(0, 2)), first);
  EXPECT_EQ(range.extent().BlockOver(range.Run(1, 2)), nullptr);
  EXPECT_EQ(range.extent().BlockOver(range.Run(2, 1)), nullptr) << "a page that two share";
  EXPECT_EQ(range.extent().BlockOver(range.Run(3, 5)), free);
  EXPECT_EQ(range.extent().BlockOver(range.Run(3, 6)), nullptr) << "into the hole";
  EXPECT_EQ(range.extent().BlockOver(range.Run(kReservedPages - 1, 1)), free->next) << "the hole, far from any start";
  range.arena().PutBack(first, BlockStep::kReturn);
  EXPECT_EQ(range.extent().BlockOver(range.Run(0, 8)), free);
}

TEST(BlockOver, FindsABlockWhoseStartIsFarBelow) {
  FilledRange range(SizeClass::kLarge);
  const int64_t pages = kReservedPages - 1;
  range.Fill(0, 1);
  range.Fill(pages - 1, 1);
  Block* const hole = range.extent().first_block()->next;
  for (int64_t page : {int64_t{1}, int64_t{64}, int64_t{4096}, pages - 2}) {
    EXPECT_EQ(range.extent().BlockOver(range.Run(page, 1)), hole) << page;
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

// What the arena does in any order, compared with a walk of the list of blocks.
class RandomBlocks {
 public:
  RandomBlocks(SizeClass group, uint32_t seed)
      : range_(group), random_(seed), most_(group == SizeClass::kSmall ? 11 : 16) {
    range_.Fill(0, 20);
    range_.Fill(500, 200);
  }

  void Step() {
    const size_t kind = Draw(10);
    if (kind < 5) {
      Block* block = range_.arena().Take(kGrain * static_cast<int64_t>(1 + Draw(size_t{1} << Draw(most_))));
      if (block != nullptr) taken_.push_back(block);
    } else if (kind < 8) {
      GiveBackOne();
    } else {
      kind == 8 ? VacateOne() : FillOne();
    }
  }
  void Compare() {
    range_.arena().CheckInvariants();
    Extent& extent = range_.extent();
    for (const Block* block = extent.first_block(); block != nullptr; block = block->next) {
      EXPECT_EQ(extent.BlockAt(block->address), block);
      EXPECT_EQ(extent.BlockAt(block->end() - Bytes(1)), block);
    }
    for (int64_t page = 0; page < 710; ++page) {
      const PageRun run = range_.Run(page, 1 + static_cast<int64_t>(Draw(4)));
      const Block* block = extent.first_block();
      while (block->end() <= run.address()) block = block->next;
      EXPECT_EQ(extent.BlockOver(run), run.address() + run.size() <= block->end() ? block : nullptr);
    }
  }

 private:
  size_t Draw(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }
  void GiveBackOne() {
    if (taken_.empty()) return;
    std::swap(taken_[Draw(taken_.size())], taken_.back());
    range_.arena().PutBack(taken_.back(), BlockStep::kReturn);
    taken_.pop_back();
  }
  // Pages of the largest free block; some of the time claimed before.
  void VacateOne() {
    Block* largest = nullptr;
    range_.arena().free_blocks().ForEachFromLargest([&largest](Block* block) {
      largest = block;
      return false;
    });
    if (largest == nullptr) return;
    PageRun run = range_.extent().WholePages(largest->address, largest->end());
    if (run.count == 0) return;
    run.first += static_cast<int64_t>(Draw(static_cast<size_t>(run.count)));
    run.count = 1;
    if (Draw(2) == 0) return range_.Vacate(largest, run);
    Block* const claimed = range_.arena().Claim(largest, run);
    range_.arena().Unclaim(claimed);
  }
  void FillOne() {
    const auto& holes = range_.arena().holes();
    if (holes.empty()) return;
    const Block* hole = holes.begin()->second;
    const PageRun run = range_.extent().WholePages(hole->address, hole->end());
    if (run.first < 700) range_.Fill(run.first + (run.count > 1 && run.first < 690 ? 1 : 0), 1);
  }

  FilledRange range_;
  std::mt19937 random_;
  const size_t most_;
  std::vector<Block*> taken_;
};

TEST(BlockStartsOfRandomBlocks, AreThoseOfTheList) {
  for (SizeClass group : {SizeClass::kSmall, SizeClass::kLarge}) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", group " << static_cast<int>(group));
      RandomBlocks blocks(group, seed);
      for (int step = 0; step < 4000; ++step) {
        blocks.Step();
        if (step % 20 == 0) blocks.Compare();
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace frugal
