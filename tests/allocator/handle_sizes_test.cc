// Handles of several sizes: how large new ones are, and that each is mapped, moved and given back as a whole.

#include <vector>

#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

using Sizes = std::vector<int64_t>;

class HandleSizes : public SizedHandlesTest {};

TEST_F(HandleSizes, AreLargeWhileMuchIsLeftAndSmallWhenLittleIs) {
  AllocatePages(16);
  EXPECT_EQ(between_.TakeCreated(), Sizes({8, 8})) << "a quarter of 64 pages would be 16, but 8 is the most";
  AllocatePages(24);
  EXPECT_EQ(between_.TakeCreated(), Sizes({8, 8, 8}));
  AllocatePages(8);
  EXPECT_EQ(between_.TakeCreated(), Sizes({4, 4})) << "a quarter of 24 is 6";
  AllocatePages(7);
  EXPECT_EQ(between_.TakeCreated(), Sizes({4, 2, 1})) << "no more than is asked for";
}

TEST_F(HandleSizes, AreSmallBesideTheirRequest) {
  PolicyOptions options = Options();
  options.request_part = 4;
  allocator_->settings().SetOptions(options);
  AllocatePages(7);
  EXPECT_EQ(between_.TakeCreated(), Sizes({1, 1, 1, 1, 1, 1, 1})) << "a quarter is less than two pages";
  AllocatePages(9);
  EXPECT_EQ(between_.TakeCreated(), Sizes({2, 2, 2, 2, 1}));
}

TEST_F(HandleSizes, AreOfOnePageForSmallBlocks) {
  for (int i = 0; i < 4; ++i) Allocate(MiB(1));
  EXPECT_EQ(between_.TakeCreated(), Sizes({1, 1}));
}

TEST_F(HandleSizes, FollowTheLimitWhereItIsLessThanWhatTheDeviceHas) {
  allocator_->settings().limit().Set(Pages(8).bytes());
  AllocatePages(4);
  EXPECT_EQ(between_.TakeCreated(), Sizes({2, 2}));
}

// A device without a page to spare, whose first handle, of four pages, is kMain's.
class WholeHandles : public SizedHandlesTest {
 protected:
  WholeHandles() : SizedHandlesTest(16), four_(AllocatePages(4)) { FillUp(); }

  const Address four_;
};

TEST_F(WholeHandles, ThatAreLargerThanWhatIsLackingLeaveTheRestFreeBehindTheBlock) {
  Free(four_);
  const Address moved = AllocatePages(3, kSide);
  device_.ResetCounters();
  EXPECT_EQ(AllocatePages(1, kSide), moved + kPageSize * 3);
  EXPECT_EQ(memory_calls(), 0u);
}

TEST_F(WholeHandles, OfWhichAPageIsInUseDoNotMove) {
  Free(four_);
  AllocatePages(1);
  EXPECT_TRUE(IsOutOfMemory(kPageSize * 3, kSide)) << "three pages are free, and of a handle that is not";
  EXPECT_TRUE(IsOutOfMemory(kPageSize, kSide));
  EXPECT_EQ(AllocatePages(3), four_ + kPageSize) << "they serve where they are";
}

TEST_F(WholeHandles, OfWhichAPageIsInUseAreNotGivenBack) {
  Free(four_);
  const Address one = AllocatePages(1);
  EXPECT_EQ(Trim(), Bytes(0));
  Free(one);
  EXPECT_EQ(Trim(kPageSize), kPageSize * 4) << "there is no part of it to be had";
}

// Handles of several pages that were lent go home whole, once all their pages are free.
// On a device without a page to spare a handle of four pages of kMain's is kSide's.
class GuestsOfSeveralPages : public SizedHandlesTest {
 protected:
  GuestsOfSeveralPages() : SizedHandlesTest(16), home_(AllocatePages(4)) {
    FillUp();
    Free(home_);
    lent_ = AllocatePages(3, kSide);
    rest_ = AllocatePages(1, kSide);
    EXPECT_EQ(rest_, lent_ + kPageSize * 3);
    device_.ResetCounters();
  }

  // Without anybody having missed it.
  bool IsHome() const {
    for (const SegmentView& segment : allocator_->inspect().Snapshot()) {
      if (segment.stream == kSide) return false;
    }
    return true;
  }

  const Address home_;
  Address lent_;
  Address rest_;
};

TEST_F(GuestsOfSeveralPages, StayWhileAPageOfThemIsInUse) {
  Free(lent_);
  EXPECT_TRUE(IsOutOfMemory(kPageSize, kMain));
  EXPECT_EQ(AllocatePages(3, kSide), lent_);
  EXPECT_EQ(memory_calls(), 0u);
}

TEST_F(GuestsOfSeveralPages, GoHomeWithTheirLastPageWhicheverThatIs) {
  Free(lent_);
  EXPECT_FALSE(IsHome());
  Free(rest_);
  EXPECT_TRUE(IsHome());
  EXPECT_EQ(AllocatePages(4, kMain), home_);
  Free(home_);
  lent_ = AllocatePages(3, kSide);
  rest_ = AllocatePages(1, kSide);
  Free(rest_);
  EXPECT_FALSE(IsHome());
  Free(lent_);
  EXPECT_TRUE(IsHome());
  EXPECT_EQ(AllocatePages(4, kMain), home_);
  EXPECT_EQ(memory_calls(), 0u);
}

}  // namespace
}  // namespace frugal
