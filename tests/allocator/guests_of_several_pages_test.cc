// Handles of several pages that were lent go home whole, once all their pages are free.

#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

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
