#include "allocator/births/leak_verdict.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace frugal {
namespace {

// A made-up program: what it keeps, by name, and what it does in each epoch.
class Program {
 public:
  // Puts a block of this size in the place of the one that was kept under the name.
  void Keep(int64_t name, Bytes size) {
    Drop(name);
    kept_[name] = {births_.Born(size, kSample), size};
  }
  void Drop(int64_t name) {
    const auto found = kept_.find(name);
    if (found == kept_.end()) return;
    births_.Died(found->second.first, found->second.second);
    kept_.erase(found);
  }
  // For good.
  void Leak(Bytes size) { births_.Born(size, kSample); }
  void Use(Bytes size) { births_.Died(births_.Born(size, kSample), size); }
  void EndEpoch() { births_.EndEpoch(); }

  // The worst verdict of all sites.
  LeakFinding Judge() const {
    LeakFinding worst;
    for (const SiteHistory& site : births_.Histories()) {
      const LeakFinding finding = JudgeSite(site.boundaries);
      if (finding.verdict >= worst.verdict) worst = finding;
    }
    return worst;
  }

 private:
  static constexpr Sample kSample{SiteId{1}};

  BirthEpochs births_;
  std::map<int64_t, std::pair<uint32_t, Bytes>> kept_;
};

TEST(LeakTest, IsSuspectAfterSevenEpochsAndSureAfterNine) {
  Program program;
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
  Program program;
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
  using Epoch = void (*)(Program&, int epoch);
  const std::map<std::string, Epoch> programs = {
      {"a model, and an optimizer that makes its state late",
       [](Program& program, int epoch) {
         if (epoch < 2) program.Keep(epoch, MiB(100));
         program.Use(MiB(50));
       }},
      {"the best checkpoint",
       [](Program& program, int epoch) {
         if (epoch % 4 == 0) program.Keep(0, MiB(100));
       }},
      {"a few things that stay",
       [](Program& program, int epoch) {
         if (epoch == 5 || epoch == 9 || epoch == 20) program.Keep(epoch, MiB(1));
       }},
  };
  for (const auto& [name, run_epoch] : programs) {
    Program program;
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
  BirthEpochs births;
  uint32_t last = BirthEpochs::kNoCohort;
  Bytes last_size;
  int times = 0;
  for (int epoch = 0; epoch < 40; ++epoch) {
    const Bytes next_size = size(epoch);
    const uint32_t next = births.Born(next_size, {SiteId{1}});
    births.Died(last, last_size);
    last = next;
    last_size = next_size;
    births.EndEpoch();
    std::vector<EpochBoundary> whole;
    for (const SiteHistory& history : births.Histories()) {
      for (const EpochBoundary& boundary : history.boundaries) {
        const auto index = static_cast<size_t>(boundary.epoch);
        if (whole.size() <= index) whole.resize(index + 1);
        whole[index].epoch = boundary.epoch;
        whole[index] += boundary;
      }
    }
    times += JudgeGrowth(whole).verdict == LeakVerdict::kGrowing ? 1 : 0;
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
