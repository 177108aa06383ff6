#include "allocator/past_stitches.h"

#include <vector>

#include "gtest/gtest.h"

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

TEST(PastStitches, AreTriedOnlyForTheSizeThatTheyServed) {
  PastStitches stitches;
  stitches.Add(kSize, RunAt(1));
  EXPECT_TRUE(Tried(stitches, kSize + Bytes(512)).empty());
  EXPECT_EQ(Tried(stitches, kSize), (std::vector<int64_t>{1}));
}

TEST(PastStitches, AreTriedInTheOrderOfTheTurnBefore) {
  PastStitches stitches;
  for (int64_t first : {1, 2, 3}) stitches.Add(kSize, RunAt(first));
  for (int turn = 0; turn < 3; ++turn) {
    for (int64_t first : {1, 2, 3}) {
      EXPECT_EQ(Tried(stitches, kSize).front(), first) << "turn " << turn;
      stitches.Add(kSize, RunAt(first));
    }
  }
}

TEST(PastStitches, FollowATurnThatTookAnotherPlaceOnce) {
  PastStitches stitches;
  for (int64_t first : {1, 2, 3}) stitches.Add(kSize, RunAt(first));
  stitches.Add(kSize, RunAt(1));
  stitches.Add(kSize, RunAt(7));  // instead of 2
  EXPECT_EQ(Tried(stitches, kSize).front(), 3);
}

TEST(PastStitches, OfOtherSizesBetweenThemDoNotMatter) {
  PastStitches stitches;
  stitches.Add(kSize, RunAt(1));
  stitches.Add(MiB(30), RunAt(5));
  stitches.Add(kSize, RunAt(2));
  stitches.Add(kSize, RunAt(1));
  EXPECT_EQ(Tried(stitches, MiB(30)).front(), 5);
  EXPECT_EQ(Tried(stitches, kSize).front(), 2);
}

TEST(PastStitches, ForgetTheOldestRatherThanGrowWithoutEnd) {
  PastStitches stitches;
  stitches.Add(MiB(30), RunAt(5));
  for (int64_t first = 0; first < 10'000; ++first) stitches.Add(kSize, RunAt(first));
  EXPECT_TRUE(Tried(stitches, MiB(30)).empty());
  EXPECT_FALSE(Tried(stitches, kSize).empty());
}

}  // namespace
}  // namespace frugal
