#include "allocator/births/trend.h"

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace frugal {
namespace {

TEST(TrendTest, RateIsTheMedianSlopeWhateverOneValueDoes) {
  EXPECT_DOUBLE_EQ(TrendOf({0, 3, 6, 900, 12, 15, 18}).per_step, 3);
}

TEST(TrendTest, WhatFallsOrStaysRisesWithoutConfidence) {
  EXPECT_LE(TrendOf({5, 4, 3, 2, 1}).confidence, 0.5);
  EXPECT_LE(TrendOf({5, 5, 5, 5, 5}).confidence, 0.5);
}

TEST(TrendTest, WhatRisesEvenlyInSevenValuesIsNearlySure) {
  EXPECT_GT(TrendOf({1, 2, 3, 4, 5, 6, 7}).confidence, 0.99);
}

TEST(TrendTest, StudentsTIsThatOfTheTables) {
  EXPECT_NEAR(StudentConfidence(6.3138, 1), 0.95, 1e-4);
  EXPECT_NEAR(StudentConfidence(2.9200, 2), 0.95, 1e-4);
  EXPECT_NEAR(StudentConfidence(2.0150, 5), 0.95, 1e-4);
  EXPECT_NEAR(StudentConfidence(2.7638, 10), 0.99, 1e-4);
  EXPECT_NEAR(StudentConfidence(0, 7), 0.5, 1e-9);
}

TEST(TrendTest, RandomWalksRiseAboutAsOftenAsTheConfidenceSays) {
  constexpr int kWalks = 2000;
  std::printf("seed 1, %d walks of 16 values\n", kWalks);
  std::mt19937 random(1);
  std::normal_distribution<double> step;
  int rising = 0;
  int rising_by_rank = 0;
  for (int walk = 0; walk < kWalks; ++walk) {
    std::vector<double> values = {0};
    while (values.size() < 16) values.push_back(values.back() + step(random));
    rising += TrendOf(values).confidence >= 0.95 ? 1 : 0;
    rising_by_rank += RankConfidence(values) >= 0.95 ? 1 : 0;
  }
  std::printf("%d rise, by their ranks alone %d\n", rising, rising_by_rank);
  EXPECT_LE(rising, kWalks * 8 / 100);
  EXPECT_GE(rising_by_rank, kWalks * 20 / 100);
}

TEST(TrendTest, LevelThatFluctuatesBesideALeakIsNoReasonToMissIt) {
  std::printf("seed 1, 200 leaks over 16 values\n");
  std::mt19937 random(1);
  std::normal_distribution<double> noise;
  int found = 0;
  for (int leak = 0; leak < 200; ++leak) {
    std::vector<double> values;
    for (int i = 0; i < 16; ++i) values.push_back(i + noise(random));
    found += TrendOf(values).confidence >= 0.95 ? 1 : 0;
  }
  EXPECT_GE(found, 190);
}

}  // namespace
}  // namespace frugal
