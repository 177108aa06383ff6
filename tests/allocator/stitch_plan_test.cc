#include "allocator/stitch_plan.h"

#include <vector>

#include "allocator/arena_set.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

constexpr Bytes kPage = kPageSize;

// Arenas whose pages are filled by hand, with no handles behind them: planning looks at no handle.
class StitchPlanTest : public testing::Test {
 protected:
  Arena& NewArena(int64_t pages) {
    Arena& arena = arenas_.Get(Stream{next_stream_++}, SizeGroup::kLarge);
    arena.AddExtent(Extent::Kind::kMovable, Address(next_address_), Pages(pages).bytes());
    next_address_ += uint64_t{1} << 40;
    return arena;
  }
  static Extent& ExtentOf(Arena& arena) { return *arena.extents().front(); }
  static void Fill(Arena& arena, int64_t first, int64_t count) { arena.Fill({&ExtentOf(arena), first, count}); }
  static std::optional<StitchPlan> Plan(const Arena& arena, Bytes size, const std::vector<const Arena*>& donors) {
    return PlanStitch(arena, size, donors, [](const View&) { return false; });
  }
  // Hands out the whole of the first `pages` pages, one block each.
  static std::vector<Block*> TakePages(Arena& arena, int64_t pages) {
    std::vector<Block*> blocks;
    for (int64_t i = 0; i < pages; ++i) blocks.push_back(arena.Take(kPage));
    return blocks;
  }

  Ledger ledger_;
  ArenaSet arenas_{ledger_};
  uint64_t next_stream_ = 1;
  uint64_t next_address_ = uint64_t{1} << 40;
};

TEST_F(StitchPlanTest, AnEmptyArenaStartsAtItsFrontierWithNewHandles) {
  Arena& arena = NewArena(100);
  const std::optional<StitchPlan> plan = Plan(arena, kPage + Bytes(512), {});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->target.first, 0);
  EXPECT_EQ(plan->target.count, 2);
  EXPECT_EQ(plan->to_create, Pages(2));
  EXPECT_TRUE(plan->donations.empty());
}

TEST_F(StitchPlanTest, FreeBytesBeforeTheFrontierCount) {
  Arena& arena = NewArena(100);
  Fill(arena, 0, 3);
  arena.Take(kPage);
  const std::optional<StitchPlan> plan = Plan(arena, kPage * 5, {&arena});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->target.first, 3);
  EXPECT_EQ(plan->target.count, 3);
  EXPECT_TRUE(plan->donations.empty()) << "what the new block joins is not taken away from it";
}

TEST_F(StitchPlanTest, TakesHandlesFromTheLargestFreeBlockOfAnyDonorBeforeCreatingOne) {
  Arena& arena = NewArena(100);
  Arena& donor = NewArena(100);
  Fill(donor, 0, 9);
  std::vector<Block*> blocks = TakePages(donor, 9);
  for (int i : {1, 4, 5, 6}) donor.PutBack(blocks[i], BlockStep::kReturn);
  const std::optional<StitchPlan> plan = Plan(arena, kPage * 5, {&donor});
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->donations.size(), 2u);
  EXPECT_EQ(plan->donations[0].run.first, 4);
  EXPECT_EQ(plan->donations[0].run.count, 3);
  EXPECT_EQ(plan->donations[1].run.first, 1);
  EXPECT_EQ(plan->donations[1].run.count, 1);
  EXPECT_EQ(plan->to_create, Pages(1));
}

TEST_F(StitchPlanTest, APartOfAPageIsNoDonation) {
  Arena& arena = NewArena(100);
  Arena& donor = NewArena(100);
  Fill(donor, 0, 2);
  Block* head = donor.Take(Bytes(512));
  (void)head;  // the free rest is nearly two pages, of which one is whole
  const std::optional<StitchPlan> plan = Plan(arena, kPage * 2, {&donor});
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->donations.size(), 1u);
  EXPECT_EQ(plan->donations[0].run.first, 1);
  EXPECT_EQ(plan->to_create, Pages(1));
}

TEST_F(StitchPlanTest, RefillsTheHoleThatNeedsTheFewestPages) {
  Arena& arena = NewArena(100);
  Fill(arena, 0, 10);
  std::vector<Block*> blocks = TakePages(arena, 10);
  arena.PutBack(blocks[2], BlockStep::kReturn);
  arena.PutBack(blocks[3], BlockStep::kReturn);
  arena.PutBack(blocks[4], BlockStep::kReturn);
  arena.Vacate(blocks[2], {&ExtentOf(arena), 3, 1});
  const std::optional<StitchPlan> plan = Plan(arena, kPage * 3, {&arena});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->target.first, 3);
  EXPECT_EQ(plan->target.count, 1);
}

TEST_F(StitchPlanTest, LeavesAHoleWhoseOldViewIsStillInUse) {
  Arena& arena = NewArena(100);
  Fill(arena, 0, 4);
  std::vector<Block*> blocks = TakePages(arena, 4);
  arena.PutBack(blocks[1], BlockStep::kReturn);
  arena.Vacate(blocks[1], {&ExtentOf(arena), 1, 1});
  const auto hole_is_in_use = [&](const View& view) { return &view == &ExtentOf(arena).view(1); };
  const std::optional<StitchPlan> plan = PlanStitch(arena, kPage, {}, hole_is_in_use);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->target.first, 4);
}

TEST_F(StitchPlanTest, SaysWhenNoHoleIsLargeEnough) {
  Arena& arena = NewArena(4);
  EXPECT_FALSE(Plan(arena, kPage * 5, {}).has_value());
}

TEST_F(StitchPlanTest, ChangesNothing) {
  Arena& arena = NewArena(100);
  Fill(arena, 0, 4);
  Plan(arena, kPage * 9, {&arena});
  EXPECT_EQ(arena.free_blocks().LargestSize(), kPage * 4);
  EXPECT_EQ(arena.holes().size(), 1u);
}

}  // namespace
}  // namespace frugal
