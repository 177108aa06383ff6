#include "allocator/blocks/past_stitches.h"

#include <vector>

#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

constexpr Bytes kSize = MiB(20);

PageRun RunAt(int64_t first) { return PageRun{nullptr, first, 10}; }

std::vector<int64_t> Tried(const PastStitches& stitches, Bytes size) {
  std::vector<int64_t> firsts;
  stitches.FindOfSize(size, [&firsts](PageRun run) {
    firsts.push_back(run.first);
    return false;
  });
  return firsts;
}

TEST(PastStitches, ForgetTheOldestRatherThanGrowWithoutEnd) {
  PastStitches stitches;
  stitches.Add(MiB(30), RunAt(5));
  for (int64_t first = 0; first < 10'000; ++first) stitches.Add(kSize, RunAt(first));
  EXPECT_TRUE(Tried(stitches, MiB(30)).empty());
  EXPECT_FALSE(Tried(stitches, kSize).empty());
}

// A device without a page to spare: two handles of four pages, which are free, and one of a page beside each.
class PastStitchesOfWholeHandles : public SizedHandlesTest {
 protected:
  PastStitchesOfWholeHandles() : SizedHandlesTest(16) {
    for (Address* block : {&first_, &second_}) {
      *block = AllocatePages(4);
      AllocatePages(1);
    }
    FillUp();
    Free(first_);
    Free(second_);
  }

  Address first_;
  Address second_;
};

TEST_F(PastStitchesOfWholeHandles, AreMadeAgainWithoutADriverCall) {
  const Address stitched = AllocatePages(7);
  const int64_t stitches = statistics().num_stitches;
  Free(stitched);
  device_.ResetCounters();
  EXPECT_EQ(AllocatePages(7), stitched);
  EXPECT_EQ(driver_time(), 0);
  EXPECT_EQ(statistics().num_stitches, stitches + 1);
}

TEST_F(PastStitchesOfWholeHandles, AreNotMadeAgainWhileAPageOfOneOfThemIsInUse) {
  const Address stitched = AllocatePages(8);
  Free(stitched);
  const Address one = AllocatePages(1);
  EXPECT_TRUE(one == first_ || one == second_) << "at home";
  EXPECT_TRUE(IsOutOfMemory(kPageSize * 8));
  Free(one);
  EXPECT_EQ(AllocatePages(8), stitched);
}

TEST_F(PastStitchesOfWholeHandles, AreNotMadeAgainWhereAnotherHandleWasMappedOverOne) {
  const Address stitched = AllocatePages(8);
  Free(stitched);
  ASSERT_EQ(Trim(), kPageSize * 8);
  const Address again = AllocatePages(8);
  EXPECT_TRUE(between_.IsOpen(again, kPageSize * 8));
  EXPECT_EQ(between_.TakeCreated(), std::vector<int64_t>(4, 2)) << "others than were there before";
}

}  // namespace
}  // namespace frugal
