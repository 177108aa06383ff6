#include "allocator/stitching/stitch_plan.h"

#include <optional>
#include <vector>

#include "tests/allocator/filled_arenas.h"

namespace frugal {
namespace {

constexpr Bytes kPage = kPageSize;

class StitchPlanTest : public FilledArenas {
 protected:
  static std::optional<StitchPlan> Plan(const Arena& arena, Bytes size, const std::vector<Arena*>& donors) {
    return PlanWith(arena, size, Offers(donors, AnyBlock), [](const PageRef&) { return true; });
  }
  static bool AnyBlock(const Block&) { return true; }
  static std::optional<StitchPlan> PlanWith(const Arena& arena, Bytes size, const Offers& offers,
                                            absl::FunctionRef<bool(PageRef)> may_unmap, Pages largest_new = Pages(1)) {
    return PlanStitch(arena,
                      {size, offers, largest_new, /*saves_pages=*/false, DriverCosts(), PolicyOptions(), may_unmap});
  }
  // Hands out the whole of the first `pages` pages, one block each.
  static std::vector<Block*> TakePages(Arena& arena, int64_t pages) {
    std::vector<Block*> blocks;
    for (int64_t i = 0; i < pages; ++i) blocks.push_back(arena.Take(kPage));
    return blocks;
  }
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
  EXPECT_EQ(plan->donations[0].run, (PageRun{&ExtentOf(donor), 4, 3}));
  EXPECT_EQ(plan->donations[1].run, (PageRun{&ExtentOf(donor), 1, 1}));
  EXPECT_EQ(plan->pieces[0].handle, ExtentOf(donor).pages().view(4).handle) << "the largest run first";
  EXPECT_EQ(plan->pieces[4].handle, nullptr) << "to be created";
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
  ExtentOf(arena).pages().MutableView(3) = View();  // Given back to the device.
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
  ExtentOf(arena).pages().MutableView(1).state = View::State::kStale;
  const auto hole_is_in_use = [](const PageRef& page) { return page.page != 1; };
  const std::optional<StitchPlan> plan = PlanWith(arena, kPage, Offers(), hole_is_in_use);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->target.first, 4);
}

TEST_F(StitchPlanTest, TakesAHandleWhereItCanStillBeSeen) {
  Arena& arena = NewArena(100);
  Fill(arena, 0, 6);
  std::vector<Block*> blocks = TakePages(arena, 6);
  for (int i : {1, 3, 4}) arena.PutBack(blocks[i], BlockStep::kReturn);
  // Page 7 saw the handle of page 1 before.
  ExtentOf(arena).pages().MutableView(7) =
      View{View::State::kStale, 0, ExtentOf(arena).pages().view(1).handle, /*accessible=*/true};
  const std::optional<StitchPlan> plan = Plan(arena, kPage * 3, {&arena});
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->target, (PageRun{&ExtentOf(arena), 6, 3}));
  EXPECT_EQ(plan->pieces[1].handle, ExtentOf(arena).pages().view(1).handle);
  EXPECT_EQ(plan->to_create, Pages(0));
}

TEST_F(StitchPlanTest, LeavesTheSecondOldViewOfAHandleThatIsStillInUse) {
  Arena& arena = NewArena(100);
  Fill(arena, 0, 6);
  std::vector<Block*> blocks = TakePages(arena, 6);
  for (int i : {1, 3, 4}) arena.PutBack(blocks[i], BlockStep::kReturn);
  // The handle can be had for page 6, and then another one has to be mapped over the view at page 7.
  for (int64_t page : {6, 7}) {
    ExtentOf(arena).pages().MutableView(page) =
        View{View::State::kStale, 0, ExtentOf(arena).pages().view(1).handle, /*accessible=*/true};
  }
  const auto second_is_in_use = [](const PageRef& page) { return page.page != 7; };
  const std::optional<StitchPlan> plan = PlanWith(arena, kPage * 3, Offers(arenas_.all(), AnyBlock), second_is_in_use);
  ASSERT_TRUE(plan.has_value());
  EXPECT_GE(plan->target.first, 8);
}

TEST_F(StitchPlanTest, TakesNoHandleThatReachesBeyondTheRoomOfAPlace) {
  Arena& arena = NewArena(7);
  Fill(arena, 0, 2);
  Fill(arena, 5, 2);
  TakePages(arena, 4);
  Arena& donor = NewArena(100);
  Fill(donor, 0, 4, 2);
  const std::optional<StitchPlan> plan = Plan(arena, kPage * 3, {&donor});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->target, (PageRun{&ExtentOf(arena), 2, 3}));
  EXPECT_EQ(plan->to_create, Pages(1)) << "two pages are lacking, then one";
}

TEST_F(StitchPlanTest, TakesAHandleOfSeveralPagesWhereItCanStillBeSeenAtTheEndOfAHole) {
  Arena& arena = NewArena(20);
  Fill(arena, 0, 1);
  TakePages(arena, 1);
  Fill(arena, 16, 4);
  Arena& donor = NewArena(100);
  Fill(donor, 0, 2, 2);
  Arena& larger = NewArena(100);
  Fill(larger, 0, 8, 2);
  Handle* const seen = ExtentOf(donor).pages().view(0).handle;
  seen->stale.push_back(PageRef{&ExtentOf(arena), 14});
  for (int32_t part : {0, 1}) {
    View& view = ExtentOf(arena).pages().MutableView(14 + part);
    view = View{View::State::kStale, part, seen};
    view.accessible = true;
  }
  const std::optional<StitchPlan> plan = Plan(arena, kPage * 8, {&donor, &larger});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->target, (PageRun{&ExtentOf(arena), 12, 4}));
  EXPECT_EQ(plan->pieces.back().handle, seen) << "though the other donor has the larger run";
}

TEST_F(StitchPlanTest, FindsPagesThatWereNeverUsedBehindAnyNumberOfHolesInUse) {
  Arena& arena = NewArena(100);
  Fill(arena, 0, 60);
  std::vector<Block*> blocks = TakePages(arena, 60);
  for (int64_t page = 1; page < 60; page += 2) {
    arena.PutBack(blocks[static_cast<size_t>(page)], BlockStep::kReturn);
    arena.Vacate(blocks[static_cast<size_t>(page)], {&ExtentOf(arena), page, 1});
    ExtentOf(arena).pages().MutableView(page).state = View::State::kStale;
  }
  const std::optional<StitchPlan> plan = PlanWith(arena, kPage, Offers(), [](const PageRef&) { return false; });
  ASSERT_TRUE(plan.has_value());
  EXPECT_GE(plan->target.first, 60);
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

TEST_F(StitchPlanTest, AsksNothingAboutPagesThatShowNoHandle) {
  Arena& arena = NewArena(100);
  Fill(arena, 0, 3);
  TakePages(arena, 3);
  int64_t asked = 0;
  const auto count = [&asked](const PageRef&) { return ++asked > 0; };
  ASSERT_TRUE(PlanWith(arena, kPage * 5, Offers(), count).has_value());
  EXPECT_EQ(asked, 0);
}

}  // namespace
}  // namespace frugal
