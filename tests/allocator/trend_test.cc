#include "allocator/births/trend.h"

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

TEST(TrendTest, RateIsTheMedianSlopeWhateverOneValueDoes) {
  EXPECT_DOUBLE_EQ(TrendOf({0, 3, 6, 900, 12, 15, 18}).per_step, 3);
}

// A series of the table that Python reads, too (tests/leaks/test_trend.py), one a line.
struct Series {
  std::string name;
  std::vector<double> values;
  double slope = 0;
  double confidence = 0;
};

double NumberAfter(absl::string_view line, absl::string_view key) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(key, 1));
  double number = 0;
  EXPECT_TRUE(absl::SimpleAtod(parts.back().substr(0, parts.back().find_first_of(",}")), &number)) << line;
  return number;
}

std::vector<Series> SeriesOnRecord() {
  std::vector<Series> all;
  std::ifstream file("tests/allocator/trend_series.json");
  for (std::string line; std::getline(file, line);) {
    const size_t start = line.find('[');
    const size_t end = line.find(']');
    if (line.size() < 2 || start == std::string::npos || end == std::string::npos) continue;
    Series series{line.substr(0, start), {}, NumberAfter(line, "\"slope\": "), NumberAfter(line, "\"confidence\": ")};
    for (const absl::string_view number :
         absl::StrSplit(line.substr(start + 1, end - start - 1), ", ", absl::SkipEmpty())) {
      EXPECT_TRUE(absl::SimpleAtod(number, &series.values.emplace_back())) << line;
    }
    all.push_back(std::move(series));
  }
  return all;
}

TEST(TrendTest, SeriesOnRecordHaveTheSlopeAndConfidenceThatPythonGivesThem) {
  const std::vector<Series> all = SeriesOnRecord();
  ASSERT_GE(all.size(), 12);
  for (const Series& series : all) {
    EXPECT_NEAR(MedianSlope(series.values), series.slope, 1e-9) << series.name;
    EXPECT_NEAR(RankConfidence(series.values), series.confidence, 1e-9) << series.name;
  }
}

TEST(TrendTest, WhatFallsOrStaysRisesWithoutConfidence) {
  EXPECT_EQ(TrendOf({5, 4, 3, 2, 1}).confidence, 0);
  EXPECT_EQ(TrendOf({5, 5, 5, 5, 5}).confidence, 0);
}

TEST(TrendTest, WhatRisesEvenlyInSevenValuesIsNearlySure) {
  EXPECT_GT(TrendOf({1, 2, 3, 4, 5, 6, 7}).confidence, 0.99);
}

TEST(TrendTest, StudentsTOfTwoSidesIsThatOfTheTables) {
  EXPECT_NEAR(StudentConfidence(6.3138, 1), 0.9, 1e-4);
  EXPECT_NEAR(StudentConfidence(2.9200, 2), 0.9, 1e-4);
  EXPECT_NEAR(StudentConfidence(2.0150, 5), 0.9, 1e-4);
  EXPECT_NEAR(StudentConfidence(2.7638, 10), 0.98, 1e-4);
  EXPECT_NEAR(StudentConfidence(0, 7), 0, 1e-9);
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
    rising += TrendOf(values).confidence >= kTrendConfidence ? 1 : 0;
    rising_by_rank += RankConfidence(values) >= kTrendConfidence ? 1 : 0;
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
    found += TrendOf(values).confidence >= kTrendConfidence ? 1 : 0;
  }
  EXPECT_GE(found, 190);
}

// tests/leaks/test_trend.py reads the same table.
TEST(TrendTest, BlocksOnRecordAreJudgedAsPythonJudgesThem) {
  std::ifstream file("tests/allocator/block_growth.json");
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    long long bytes_before = 0;
    long long bytes_after = 0;
    long long blocks_before = 0;
    long long blocks_after = 0;
    if (std::sscanf(line.c_str(), "  {\"name\": \"%*[^\"]\", \"before\": [%lld, %lld], \"after\": [%lld, %lld]",
                    &bytes_before, &blocks_before, &bytes_after, &blocks_after) != 4) {
      continue;
    }
    ++cases;
    const Held before = {Bytes(bytes_before), blocks_before};
    const Held after = {Bytes(bytes_after), blocks_after};
    EXPECT_EQ(AreAsMany(before, after), line.find("\"as_many\": true") != std::string::npos) << line;
    EXPECT_EQ(AreLarger(before, after), line.find("\"larger\": true") != std::string::npos) << line;
  }
  EXPECT_EQ(cases, 10);
}

}  // namespace
}  // namespace frugal
