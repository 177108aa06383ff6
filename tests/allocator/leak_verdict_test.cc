#include "allocator/births/leak_verdict.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
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
  Bytes live() const { return births_.live(); }

 private:
  static constexpr Sample kSample{SiteId{1}};

  BirthEpochs births_;
  std::map<int64_t, std::pair<uint32_t, Bytes>> kept_;
};

// Runs `epoch(program, number)` for so many epochs; returns the worst verdict of all that were seen on the way.
template <typename Epoch>
LeakVerdict WorstVerdict(int epochs, Epoch&& epoch) {
  Program program;
  LeakVerdict worst = LeakVerdict::kNone;
  for (int number = 0; number < epochs; ++number) {
    epoch(program, number);
    program.EndEpoch();
    worst = std::max(worst, program.Judge().verdict);
  }
  return worst;
}

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

TEST(LeakTest, IsFoundBesideMemoryThatFluctuates) {
  std::minstd_rand random(5);
  Program program;
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (int name = 0; name < 30; ++name) program.Drop(name);
    const int kept = static_cast<int>(random() % 30);
    for (int name = 0; name < kept; ++name) program.Keep(name, KiB(12));
    for (int step = 0; step < 20; ++step) program.Leak(KiB(12));
    program.EndEpoch();
  }
  EXPECT_EQ(program.Judge().verdict, LeakVerdict::kLeak);
  EXPECT_NEAR(program.Judge().bytes_per_epoch, 20 * 12 * 1024, 5 * 12 * 1024);
}

TEST(LeakTest, IsFoundBesideABufferOfTheSameLineThatIsFull) {
  Program program;
  int64_t next = 0;
  for (int epoch = 0; epoch < 30; ++epoch) {
    for (int i = 0; i < 3; ++i) program.Keep(next++ % 12, KiB(40));
    program.Leak(KiB(40));
    program.EndEpoch();
    if (epoch >= 20) {
      EXPECT_EQ(program.Judge().verdict, LeakVerdict::kLeak) << "after epoch " << epoch;
    }
  }
}

TEST(LeakTest, IsFoundWhenItBeginsLate) {
  Program program;
  for (int name = 0; name < 50; ++name) program.Keep(name, KiB(12));
  for (int epoch = 0; epoch < 60; ++epoch) {
    if (epoch >= 50) program.Leak(KiB(12));
    program.EndEpoch();
  }
  EXPECT_EQ(program.Judge().verdict, LeakVerdict::kLeak);
  EXPECT_DOUBLE_EQ(program.Judge().bytes_per_epoch, 12 * 1024);
}

TEST(LeakTest, IsFoundWhenOnlyEveryThirdEpochEvaluates) {
  Program program;
  for (int epoch = 0; epoch < 24; ++epoch) {
    if (epoch % 3 == 0) program.Leak(KiB(12));
    program.EndEpoch();
  }
  EXPECT_EQ(program.Judge().verdict, LeakVerdict::kLeak);
  EXPECT_NEAR(program.Judge().bytes_per_epoch, 4 * 1024, 512);
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

TEST(BenignTest, ModelAndOptimizerStateAreKeptFromTheStart) {
  EXPECT_EQ(WorstVerdict(40,
                         [](Program& program, int epoch) {
                           if (epoch == 0) program.Keep(0, MiB(100));  // the model
                           if (epoch == 1) program.Keep(1, MiB(200));  // an optimizer that makes its state late
                           program.Use(MiB(50));
                         }),
            LeakVerdict::kNone);
}

TEST(BenignTest, TheBestCheckpointIsReplacedEveryFewEpochs) {
  EXPECT_EQ(WorstVerdict(60,
                         [](Program& program, int epoch) {
                           if (epoch % 4 == 0) program.Keep(0, MiB(100));
                         }),
            LeakVerdict::kNone);
}

TEST(BenignTest, ResultsOfTheLastFiveEpochsAreKept) {
  EXPECT_EQ(WorstVerdict(60, [](Program& program, int epoch) { program.Keep(epoch % 5, MiB(1)); }), LeakVerdict::kNone);
}

TEST(BenignTest, ABufferThatIsFullReplacesItsContent) {
  std::minstd_rand random(7);
  EXPECT_EQ(WorstVerdict(60,
                         [&random](Program& program, int epoch) {
                           if (epoch == 0) {
                             for (int name = 0; name < 500; ++name) program.Keep(name, KiB(28));
                           }
                           for (int i = 0; i < 40; ++i) program.Keep(static_cast<int64_t>(random() % 500), KiB(28));
                         }),
            LeakVerdict::kNone);
}

TEST(BenignTest, ThingsMadeLateAreFewAndStay) {
  EXPECT_EQ(WorstVerdict(60,
                         [](Program& program, int epoch) {
                           if (epoch == 5 || epoch == 9 || epoch == 20) program.Keep(epoch, MiB(1));
                         }),
            LeakVerdict::kNone);
}

TEST(BenignTest, TheLastBatchIsStillAliveAtTheBoundary) {
  std::minstd_rand random(11);
  EXPECT_EQ(WorstVerdict(60, [&random](Program& program,
                                       int) { program.Keep(0, KiB(512 + static_cast<int64_t>(random() % 500))); }),
            LeakVerdict::kNone);
}

int64_t Below(int64_t limit, std::minstd_rand& random) { return static_cast<int64_t>(random()) % limit; }

// One of many healthy programs: something kept from the start, something that fluctuates, a bounded cache and a
// buffer that replaces its content, each of a size of its own.
void RunHealthyEpoch(Program& program, int epoch, std::minstd_rand& random) {
  if (epoch == 0) {
    for (int name = 0; name < 200; ++name) program.Keep(name, KiB(9 + Below(7, random)));
  }
  const int64_t replaced = Below(40, random);
  for (int64_t i = 0; i < replaced; ++i) program.Keep(Below(200, random), KiB(9 + Below(7, random)));
  program.Keep(1000 + epoch % 4, KiB(33 + Below(30, random)));
  for (int name = 2000; name < 2020; ++name) program.Drop(name);
  const int64_t kept = Below(20, random);
  for (int64_t name = 2000; name < 2000 + kept; ++name) program.Keep(name, KiB(100));
}

TEST(BothTest, FewFalseAlarmsAndFewLeaksMissedAmongManyPrograms) {
  constexpr int kPrograms = 500;
  int false_alarms = 0;
  int found = 0;
  int grown = 0;
  for (int seed = 1; seed <= kPrograms; ++seed) {
    for (const bool leaking : {false, true}) {
      std::minstd_rand random(static_cast<unsigned>(seed));
      Program program;
      Bytes after_warm_up;
      for (int epoch = 0; epoch < 10; ++epoch) {
        RunHealthyEpoch(program, epoch, random);
        if (leaking) {
          for (int step = 0; step < 10; ++step) program.Leak(KiB(12));
        }
        program.EndEpoch();
        if (epoch == 1) after_warm_up = program.live();
      }
      const bool leak = program.Judge().verdict == LeakVerdict::kLeak;
      (leaking ? found : false_alarms) += leak ? 1 : 0;
      if (!leaking && program.live() * 10 > after_warm_up * 11) ++grown;
    }
  }
  std::printf(
      "of %d leaks %d were found by epoch 10; of %d healthy programs %d gave alarm, and %d had grown by 10 %%\n",
      kPrograms, found, kPrograms, false_alarms, grown);
  EXPECT_GE(found, kPrograms * 95 / 100);
  EXPECT_LE(false_alarms, kPrograms / 100);
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
