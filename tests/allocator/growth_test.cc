// New memory comes before remapping, as long as it is worth its price.

#include <vector>

#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

// Sixteen pages are held, all of which were in use; every second one is free, and no two of these lie side by side. A
// request of eight takes eight pages of new memory, which then are beyond the most that was ever in use.
class Growth : public SizedHandlesTest {
 protected:
  static PolicyOptions HalfOfWhatIsLeft() {
    PolicyOptions options = Options();
    options.waste_part = 2;
    options.use_part = 1;
    options.request_part = 1;
    options.piece_part = 1'000'000;
    return options;
  }
  // On a device of so many pages.
  explicit Growth(int64_t pages = 40) : SizedHandlesTest(pages, HalfOfWhatIsLeft()) {
    std::vector<Address> blocks;
    for (int i = 0; i < 16; ++i) blocks.push_back(AllocatePages(1));
    for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
    device_.ResetCounters();
  }
  void ExpectGrown() {
    EXPECT_EQ(statistics().num_stitches, 0);
    EXPECT_EQ(calls(CallKind::kCreate), 8u);
  }
  void ExpectRemapped() {
    EXPECT_EQ(statistics().num_stitches, 1);
    EXPECT_EQ(calls(CallKind::kCreate), 0u);
  }
};

// Of 40 pages 16 are left after the growth: half of that is what may be beyond.
TEST_F(Growth, IsWorthItsPriceUpToThePartOfWhatIsLeft) {
  AllocatePages(8);
  ExpectGrown();
}

class GrowthOnAPageLess : public Growth {
 protected:
  GrowthOnAPageLess() : Growth(39) {}
};

TEST_F(GrowthOnAPageLess, IsNotWorthItsPrice) {
  AllocatePages(8);
  ExpectRemapped();
}

TEST_F(Growth, LeavesTheReserveToTheDriver) {
  allocator_->settings().SetDriverReserve(kPageSize);
  AllocatePages(8);
  ExpectRemapped();
}

TEST_F(Growth, CountsWhatTheLimitLeaves) {
  allocator_->settings().limit().Set(kPageSize * 39);
  AllocatePages(8);
  ExpectRemapped();
}

TEST_F(Growth, CountsWhatOthersHoldBelowTheLimit) {
  allocator_->settings().limit().Set(kPageSize * 40);
  ASSERT_TRUE(allocator_->settings().limit().Take(kPageSize));
  AllocatePages(8);
  ExpectRemapped();
}

class GrowthOfAPartOfWhatIsUsed : public Growth {
 protected:
  // Sixteen pages were in use at most, and then the eight of the request beside the eight that are: a third is five.
  GrowthOfAPartOfWhatIsUsed() : Growth(1000) { SetUsePart(3); }
  void SetUsePart(int64_t part) {
    PolicyOptions options = HalfOfWhatIsLeft();
    options.largest_piece = 1;
    options.use_part = part;
    allocator_->settings().SetOptions(options);
  }
};

TEST_F(GrowthOfAPartOfWhatIsUsed, IsNotWorthItsPriceHoweverMuchIsLeft) {
  AllocatePages(8);
  ExpectRemapped();
}

TEST_F(GrowthOfAPartOfWhatIsUsed, IsWorthItUpToThatPart) {
  SetUsePart(2);
  AllocatePages(8);
  ExpectGrown();
}

TEST_F(GrowthOfAPartOfWhatIsUsed, CountsTheMostEverInUseAlsoAfterPeaksWereReset) {
  SetUsePart(2);
  allocator_->ResetPeakStatistics();
  AllocatePages(8);
  ExpectGrown();
}

class AmpleGrowth : public Growth {
 protected:
  AmpleGrowth() : Growth(1000) {}
};

TEST_F(AmpleGrowth, ServesEveryRequestWithoutAStitch) {
  for (int round = 0; round < 5; ++round) {
    std::vector<Address> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(AllocatePages(2));
    for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
    const Address joined = AllocatePages(3 + round);
    for (size_t i = 1; i < blocks.size(); i += 2) Free(blocks[i]);
    Free(joined);
  }
  EXPECT_EQ(statistics().num_stitches, 0);
  EXPECT_EQ(calls(CallKind::kUnmap), 0u);
}

// What can still be seen where the same request was served before takes no driver call, which no new memory does.
TEST_F(GrowthOnAPageLess, ComesAfterAStitchThatTakesNoDriverCall) {
  Free(AllocatePages(8));
  PolicyOptions any_price = Options();
  any_price.waste_part = 1;
  allocator_->settings().SetOptions(any_price);
  device_.ResetCounters();
  AllocatePages(8);
  EXPECT_EQ(driver_time(), 0);
  EXPECT_EQ(statistics().num_stitches, 2);
}

}  // namespace
}  // namespace frugal
