#include "allocator/births/leak_verdict.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/allocator/made_up_program.h"

namespace frugal {
namespace {

TEST(LeakTest, IsSuspectAfterSevenEpochsAndSureAfterNine) {
  MadeUpProgram program;
  std::vector<LeakVerdict> verdicts;
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (int step = 0; step < 20; ++step) program.Leak(KiB(12));
    program.EndEpoch();
    verdicts.push_back(program.Judge().verdict);
  }
  const std::vector<LeakVerdict> expected = {
      LeakVerdict::kNone, LeakVerdict::kNone,    LeakVerdict::kNone,    LeakVerdict::kNone, LeakVerdict::kNone,
      LeakVerdict::kNone, LeakVerdict::kSuspect, LeakVerdict::kSuspect, LeakVerdict::kLeak, LeakVerdict::kLeak};
  EXPECT_EQ(verdicts, expected);
  EXPECT_EQ(verdicts[kFirstLeakEpoch - 1], LeakVerdict::kLeak);
  EXPECT_NE(verdicts[kFirstLeakEpoch - 2], LeakVerdict::kLeak);
  EXPECT_DOUBLE_EQ(program.Judge().bytes_per_epoch, 20 * 12 * 1024);
  EXPECT_GT(program.Judge().confidence, 0.99);
}

TEST(LeakTest, IsNoLongerSeenOnceItIsMended) {
  MadeUpProgram program;
  for (int epoch = 0; epoch < 40; ++epoch) {
    if (epoch < 12) program.Leak(KiB(12));
    program.EndEpoch();
    if (epoch == 11) {
      EXPECT_EQ(program.Judge().verdict, LeakVerdict::kLeak);
    }
  }
  EXPECT_EQ(program.Judge().verdict, LeakVerdict::kNone);
}

// What other programs keep is in leak_calibration_test.cc.
TEST(BenignTest, WhatIsMadeLateOrReplacedInAFewEpochsIsNoLeakAtTheEndOfAnyEpoch) {
  using Epoch = void (*)(MadeUpProgram&, int epoch);
  const std::map<std::string, Epoch> programs = {
      {"a model, and an optimizer that makes its state late",
       [](MadeUpProgram& program, int epoch) {
         if (epoch < 2) program.Keep(epoch, MiB(100));
         program.Use(MiB(50));
       }},
      {"the best checkpoint",
       [](MadeUpProgram& program, int epoch) {
         if (epoch % 4 == 0) program.Keep(0, MiB(100));
       }},
      {"a few things that stay",
       [](MadeUpProgram& program, int epoch) {
         if (epoch == 5 || epoch == 9 || epoch == 20) program.Keep(epoch, MiB(1));
       }},
  };
  for (const auto& [name, run_epoch] : programs) {
    MadeUpProgram program;
    for (int epoch = 0; epoch < 60; ++epoch) {
      run_epoch(program, epoch);
      program.EndEpoch();
      EXPECT_EQ(program.Judge().verdict, LeakVerdict::kNone) << name << ", epoch " << epoch;
    }
  }
}

// The verdicts on a tensor that is replaced in each epoch by one of size(epoch), over 40 epochs.
template <typename Size>
int TimesCalledGrowing(Size&& size) {
  MadeUpProgram program;
  int times = 0;
  for (int epoch = 0; epoch < 40; ++epoch) {
    program.Keep(0, size(epoch));
    program.EndEpoch();
    times += program.Judge().verdict == LeakVerdict::kGrowing ? 1 : 0;
  }
  return times;
}

TEST(LeakVerdictTest, ATensorThatGrowsWithEachEpochIsSeenByTheNinth) {
  EXPECT_EQ(TimesCalledGrowing([](int epoch) { return KiB(10 + 3 * epoch); }), 40 - 8);
}

TEST(LeakVerdictTest, SizesDrawnAtRandomAreNotCalledGrowing) {
  std::printf("seeds 0 to 499\n");
  int times = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    times += TimesCalledGrowing([&](int) { return KiB(static_cast<int64_t>(random() % 1000) + 1); });
  }
  EXPECT_LE(times, 2);
}

TEST(LeakVerdictTest, AFewMoreBlocksOfOneSizeAreNotCalledGrowing) {
  std::vector<EpochBoundary> boundaries;
  for (int64_t epoch = 0; epoch < 12; ++epoch) {
    EpochBoundary& boundary = boundaries.emplace_back();
    boundary.epoch = epoch;
    boundary.blocks = 30 + epoch;
    boundary.live = KiB(40) * boundary.blocks;
  }
  EXPECT_EQ(JudgeGrowth(boundaries).verdict, LeakVerdict::kNone);
}

TEST(LeakVerdictTest, ATensorOfOneSizeIsNotCalledGrowing) {
  EXPECT_EQ(TimesCalledGrowing([](int) { return KiB(10); }), 0);
}

}  // namespace
}  // namespace frugal
