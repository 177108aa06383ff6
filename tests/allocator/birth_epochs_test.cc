#include "allocator/births/birth_epochs.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

constexpr Sample kSample{SiteId{1}};

using testing::IsEmpty;
using testing::SizeIs;

TEST(BirthEpochsTest, SurvivorsAreNeitherFromWarmUpNorFromTheEpochThatEnds) {
  BirthEpochs births;
  for (int epoch = 0; epoch < 5; ++epoch) {
    births.Born(KiB(1), kSample);
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
    born.push_back(births.Born(KiB(1), kSample));
    births.EndEpoch();
  }
  births.Died(born[2], KiB(1));
  births.Born(KiB(1), kSample);
  births.EndEpoch();
  const EpochBoundary last = births.Histories()[0].boundaries.back();
  EXPECT_EQ(last.surviving_epochs(), 2);
  EXPECT_EQ(last.oldest_epoch(), 3);
  EXPECT_EQ(last.let_go, KiB(1));
}

TEST(BirthEpochsTest, SitesAndSizeClassesAreKeptApart) {
  BirthEpochs births;
  births.Born(KiB(64), kSample);
  births.Born(KiB(33), kSample);
  births.Born(KiB(32), kSample);
  births.Born(KiB(64), {SiteId{7}});
  births.EndEpoch();
  const std::vector<SiteHistory> histories = births.Histories();
  ASSERT_THAT(histories, SizeIs(3));
  EXPECT_EQ(histories[0].site, SiteId{1});
  EXPECT_EQ(histories[0].largest_block, KiB(32));
  EXPECT_EQ(histories[1].largest_block, KiB(64));
  EXPECT_EQ(histories[1].boundaries[0].live, KiB(97));
  EXPECT_EQ(histories[2].site, SiteId{7});
  EXPECT_EQ(histories[2].boundaries[0].live, KiB(64));
}

TEST(BirthEpochsTest, HistoryOfASiteBeginsAnewWhenNothingWasAliveForLong) {
  BirthEpochs births;
  const uint32_t first = births.Born(KiB(1), kSample);
  births.EndEpoch();
  births.Died(first, KiB(1));
  for (size_t empty = 1; empty < BirthEpochs::kKeptEmpty; ++empty) births.EndEpoch();
  EXPECT_THAT(births.Histories(), SizeIs(1));
  births.EndEpoch();
  EXPECT_THAT(births.Histories(), IsEmpty());
  births.Born(KiB(1), kSample);
  births.EndEpoch();
  ASSERT_THAT(births.Histories(), SizeIs(1));
  ASSERT_THAT(births.Histories()[0].boundaries, SizeIs(1));
}

TEST(BirthEpochsTest, ABlockThatIsNotSampledLeavesNoTrace) {
  BirthEpochs births;
  const uint32_t number = births.Born(MiB(1), {kUnsampled});
  EXPECT_EQ(number, BirthEpochs::kNoCohort);
  births.Died(number, MiB(1));
  EXPECT_EQ(births.live(), Bytes(0));
  EXPECT_THAT(births.Usages(), IsEmpty());
}

// What one of each stands for, drawn with its chance, is what all of them have.
TEST(BirthEpochsTest, ASampledBlockStandsForThoseThatWereNot) {
  BirthEpochs births;
  for (Bytes size = kGrain; size < kSampleInterval; size += kGrain) {
    const double chance =
        1 - std::exp(-static_cast<double>(size.count()) / static_cast<double>(kSampleInterval.count()));
    const Bytes before = births.live();
    const uint32_t number = births.Born(size, {SiteId{1}, true});
    EXPECT_NEAR(static_cast<double>((births.live() - before).count()) * chance, static_cast<double>(size.count()), 1);
    EXPECT_EQ(births.live() - before, births.CountedFor(number, size));
    ASSERT_THAT(births.Usages(), SizeIs(1));
    EXPECT_EQ(births.Usages().front().live, births.CountedFor(number, size));
    births.Died(number, size);
    EXPECT_EQ(births.live(), before);
  }
}

TEST(BirthEpochsTest, CollapsedEpochsAreTheFirst) {
  BirthEpochs births;
  for (int epoch = 0; epoch < 9; ++epoch) {
    births.Born(KiB(1), kSample);
    births.EndEpoch();
  }
  births.CollapseEpochs();
  EXPECT_EQ(births.epochs_ended(), 0);
  EXPECT_THAT(births.Histories(), IsEmpty());
  births.EndEpoch();
  births.EndEpoch();
  const EpochBoundary last = births.Histories()[0].boundaries.back();
  EXPECT_EQ(last.live, KiB(9));
  EXPECT_EQ(last.surviving_epochs(), 0);
}

// What each step leaves behind shows in the same way, however many steps are an epoch.
TEST(BirthEpochsTest, HalvedEpochsGoOnAsIfTheyHadAlwaysBeenTwiceAsLong) {
  const auto step = [](BirthEpochs& births, int number) {
    births.Born(KiB(1), kSample);
    const uint32_t passing = births.Born(KiB(3), kSample);
    if (number % 3 != 0) births.Died(passing, KiB(3));
  };
  BirthEpochs halved;
  BirthEpochs expected;
  for (int number = 0; number < 32; ++number) {
    step(halved, number);
    step(expected, number);
    if (number < 16 || number % 2 == 1) halved.EndEpoch();
    if (number % 2 == 1) expected.EndEpoch();
    if (number == 15) halved.HalveEpochs();
  }
  EXPECT_EQ(halved.epochs_ended(), expected.epochs_ended());
  ASSERT_THAT(halved.Histories(), SizeIs(2));
  for (size_t kind = 0; kind < 2; ++kind) {
    const SiteHistory is = halved.Histories()[kind];
    const SiteHistory should = expected.Histories()[kind];
    ASSERT_EQ(is.boundaries.size(), should.boundaries.size());
    for (size_t i = 0; i < is.boundaries.size(); ++i) {
      EXPECT_EQ(is.boundaries[i].epoch, should.boundaries[i].epoch);
      EXPECT_EQ(is.boundaries[i].live, should.boundaries[i].live);
      EXPECT_EQ(is.boundaries[i].let_go, should.boundaries[i].let_go);
      EXPECT_EQ(is.boundaries[i].survivor_epochs, should.boundaries[i].survivor_epochs);
    }
  }
}

TEST(BirthEpochsTest, WhatHeldMemoryAtThePeakIsKnownAfterwards) {
  BirthEpochs births;
  const uint32_t large = births.Born(MiB(10), {SiteId{1}});
  const uint32_t small = births.Born(MiB(1), {SiteId{2}});
  births.Died(large, MiB(10));
  births.Born(MiB(2), {SiteId{2}});
  births.Died(small, MiB(1));
  const std::vector<SiteUsage> usages = births.Usages();
  ASSERT_THAT(usages, SizeIs(2));
  EXPECT_EQ(usages[0].site, SiteId{1});
  EXPECT_EQ(usages[0].live, Bytes(0));
  EXPECT_EQ(usages[0].at_peak, MiB(10));
  EXPECT_EQ(usages[1].live, MiB(2));
  EXPECT_EQ(usages[1].at_peak, MiB(1));
  EXPECT_EQ(births.TakeHighest(), MiB(11));
  EXPECT_EQ(births.TakeHighest(), MiB(2));
  births.RestartPeak();
  ASSERT_THAT(births.Usages(), SizeIs(1));
  EXPECT_EQ(births.Usages()[0].at_peak, MiB(2));
}

TEST(BirthEpochsTest, KeepsTheLatestBoundariesOfALongRun) {
  BirthEpochs births;
  births.Born(KiB(1), kSample);
  for (int epoch = 0; epoch < 1000; ++epoch) births.EndEpoch();
  const std::vector<SiteHistory> histories = births.Histories();
  EXPECT_THAT(histories[0].boundaries, SizeIs(BirthEpochs::kKeptBoundaries));
  EXPECT_EQ(histories[0].boundaries.back().epoch, 999);
}

}  // namespace
}  // namespace frugal
