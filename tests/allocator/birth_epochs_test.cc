#include "allocator/birth_epochs.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(BirthEpochsTest, BlocksThatDiedAreNotAlive) {
  BirthEpochs births;
  const uint32_t first = births.Born(KiB(1));
  births.Born(KiB(3));
  EXPECT_EQ(births.live(), KiB(4));
  births.Died(first, KiB(1));
  EXPECT_EQ(births.live(), KiB(3));
}

TEST(BirthEpochsTest, SurvivorsAreNeitherFromWarmUpNorFromTheEpochThatEnds) {
  BirthEpochs births;
  for (int epoch = 0; epoch < 5; ++epoch) {
    births.Born(KiB(1));
    births.EndEpoch();
  }
  const std::vector<SiteHistory> histories = births.Histories();
  ASSERT_THAT(histories, SizeIs(1));
  const EpochBoundary& last = histories[0].boundaries.back();
  EXPECT_EQ(last.epoch, 4);
  EXPECT_EQ(last.live, KiB(5));
  EXPECT_EQ(last.blocks, 5);
  EXPECT_EQ(last.survivors, KiB(2));
  EXPECT_EQ(last.surviving_blocks, 2);
  EXPECT_EQ(last.surviving_epochs(), 2);
  EXPECT_EQ(last.oldest_epoch(), 2);
}

TEST(BirthEpochsTest, AnEpochWhoseBlocksAllDiedLeavesNoSurvivors) {
  BirthEpochs births;
  std::vector<uint32_t> born;
  for (int epoch = 0; epoch < 5; ++epoch) {
    born.push_back(births.Born(KiB(1)));
    births.EndEpoch();
  }
  births.Died(born[2], KiB(1));
  births.Born(KiB(1));
  births.EndEpoch();
  const EpochBoundary last = births.Histories()[0].boundaries.back();
  EXPECT_EQ(last.surviving_epochs(), 2);
  EXPECT_EQ(last.oldest_epoch(), 3);
  EXPECT_EQ(last.let_go, KiB(1));
}

TEST(BirthEpochsTest, SitesAndSizeClassesAreKeptApart) {
  BirthEpochs births;
  births.Born(KiB(64));
  births.Born(KiB(33));
  births.Born(KiB(32));
  CurrentSample::Set({SiteId{7}});
  births.Born(KiB(64));
  EXPECT_EQ(CurrentSample::Set({}).site, SiteId{7});
  births.EndEpoch();
  const std::vector<SiteHistory> histories = births.Histories();
  ASSERT_THAT(histories, SizeIs(3));
  EXPECT_EQ(histories[0].site, kNoSite);
  EXPECT_EQ(histories[0].largest_block, KiB(32));
  EXPECT_EQ(histories[1].largest_block, KiB(64));
  EXPECT_EQ(histories[1].boundaries[0].live, KiB(97));
  EXPECT_EQ(histories[2].site, SiteId{7});
  EXPECT_EQ(histories[2].boundaries[0].live, KiB(64));
}

TEST(BirthEpochsTest, HistoryOfASiteBeginsAnewWhenNothingWasAlive) {
  BirthEpochs births;
  const uint32_t first = births.Born(KiB(1));
  births.EndEpoch();
  births.Died(first, KiB(1));
  births.EndEpoch();
  EXPECT_THAT(births.Histories(), IsEmpty());
  births.Born(KiB(1));
  births.EndEpoch();
  ASSERT_THAT(births.Histories(), SizeIs(1));
  ASSERT_THAT(births.Histories()[0].boundaries, SizeIs(1));
  EXPECT_EQ(births.Histories()[0].boundaries[0].epoch, 2);
}

TEST(BirthEpochsTest, KeepsTheLatestBoundariesOfALongRun) {
  BirthEpochs births;
  births.Born(KiB(1));
  for (int epoch = 0; epoch < 1000; ++epoch) births.EndEpoch();
  const std::vector<SiteHistory> histories = births.Histories();
  EXPECT_THAT(histories[0].boundaries, SizeIs(BirthEpochs::kKeptBoundaries));
  EXPECT_EQ(histories[0].boundaries.back().epoch, 999);
}

}  // namespace
}  // namespace frugal
