// Of the healthy at most 5 of 100 are accused at kTrendConfidence, of the leaks at least 95 found: many made-up
// programs of each kind, healthy and leaking.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "allocator/births/trend.h"
#include "gtest/gtest.h"
#include "tests/allocator/made_up_program.h"

namespace frugal {
namespace {

constexpr int kPrograms = 200;
constexpr int kEpochs = 30;
// By then what fills up within six epochs has been full for long enough to be seen.
constexpr int kSettledEpochs = 15;

// What one program does in an epoch, with figures of its own.
using Behaviour = std::function<void(MadeUpProgram&, int epoch)>;
using Kind = std::function<Behaviour(MadeUpProgram&)>;

constexpr uint32_t kFirst = 1;
constexpr uint32_t kSecond = 2;
constexpr uint32_t kThird = 3;
constexpr uint32_t kBackground = 9;

// What every program has beside: a model, and a last batch that is alive at the end of each epoch.
void Background(MadeUpProgram& program, int epoch) {
  if (epoch == 0) program.Keep(100'000, MiB(20), kBackground);
  program.Keep(100'001, KiB(program.Between(50, 500)), kBackground);
}

Bytes EntrySize(MadeUpProgram& program, bool varies) { return KiB(varies ? program.Between(20, 60) : 40); }

// How many to make in an epoch for all to be there after one to six epochs. Until then nothing tells it from a leak.
int64_t FillsWithin(int64_t entries, MadeUpProgram& program) { return entries / program.Between(1, 6) + 1; }

// Filled at one line, its entries replaced at random at others.
Behaviour Pool(MadeUpProgram& program, std::vector<uint32_t> replaced_at, bool varies) {
  const int64_t entries = program.Between(20, 200);
  const int64_t each_epoch = FillsWithin(entries, program);
  return [=, filled = int64_t{0}](MadeUpProgram& running, int) mutable {
    for (int64_t i = 0; i < each_epoch; ++i) {
      if (filled < entries) {
        running.Keep(filled++, EntrySize(running, varies), kFirst);
      } else {
        const auto where = replaced_at[static_cast<size_t>(running.Below(static_cast<int64_t>(replaced_at.size())))];
        running.Keep(running.Below(entries), EntrySize(running, varies), where);
      }
    }
  };
}

// One of so many, made when it is first met.
Behaviour Cache(MadeUpProgram& program, bool is_by_rank) {
  const int64_t keys = program.Between(20, 200);
  const int64_t each_epoch = program.Between(keys / 3, keys);
  return [=](MadeUpProgram& running, int) {
    for (int64_t i = 0; i < each_epoch; ++i) {
      // As words of a text are: the n-th of them as often as 1/n.
      const int64_t key = is_by_rank ? running.Below(running.Below(keys) + 1) : running.Below(keys);
      running.Cache(key, KiB(40), kFirst);
    }
  };
}

// Evicts at random while it fills: the fuller it is, the likelier a new entry takes the place of one that is there.
Behaviour Evicting(MadeUpProgram& program, bool varies) {
  const int64_t room = program.Between(60, 400);
  const int64_t each_epoch = room / program.Between(4, 7);
  return [=, names = std::vector<int64_t>(), next = int64_t{0}](MadeUpProgram& running, int) mutable {
    for (int64_t i = 0; i < each_epoch; ++i) {
      const auto kept = static_cast<int64_t>(names.size());
      const bool evicts = running.Below(room) < kept;
      int64_t& name = evicts ? names[static_cast<size_t>(running.Below(kept))] : names.emplace_back();
      if (evicts) running.Drop(name);
      name = next++;
      running.Keep(name, EntrySize(running, varies), kFirst);
    }
  };
}

// The latest so many, whatever they are.
Behaviour RingBuffer(MadeUpProgram& program) {
  const int64_t entries = program.Between(20, 200);
  const int64_t each_epoch = FillsWithin(entries, program);
  return [=, next = int64_t{0}](MadeUpProgram& running, int) mutable {
    for (int64_t i = 0; i < each_epoch; ++i) running.Keep(next++ % entries, EntrySize(running, true), kFirst);
  };
}

// A queue whose length goes up and down by chance.
Behaviour Queue(MadeUpProgram& program) {
  const int64_t most = program.Between(20, 100);
  return [=, first = int64_t{0}, next = int64_t{0}](MadeUpProgram& running, int) mutable {
    for (int64_t i = 0; i < 20; ++i) {
      if (next - first < most && (next == first || running.Below(2) == 0)) {
        running.Keep(next++, KiB(40), kFirst);
      } else {
        running.Drop(first++);
      }
    }
  };
}

Behaviour VaryingBatches(MadeUpProgram& program) {
  const int64_t tensors = program.Between(5, 50);
  return [=](MadeUpProgram& running, int) {
    for (int64_t name = 0; name < tensors; ++name) running.Drop(name);
    const int64_t size = running.Between(10, 200);
    for (int64_t name = 0; name < running.Between(tensors / 2, tensors); ++name) running.Keep(name, KiB(size), kFirst);
  };
}

// More in one epoch than in the next, in a rhythm of a few epochs.
Behaviour Seasons(MadeUpProgram& program) {
  const int64_t period = program.Between(2, 7);
  return [=](MadeUpProgram& running, int epoch) {
    const int64_t wanted = 10 + 10 * (epoch % period);
    for (int64_t name = 0; name < 80; ++name) {
      if (name >= wanted)
        running.Drop(name);
      else if (running.Below(4) > 0)
        running.Cache(name, KiB(40), kFirst);
    }
  };
}

Behaviour WarmUp(MadeUpProgram& program) {
  const int64_t epochs = program.Between(2, 5);
  return [=](MadeUpProgram& running, int epoch) {
    if (epoch < epochs) {
      for (int64_t i = 0; i < 10; ++i) running.Keep(epoch * 10 + i, KiB(40), kFirst);
    }
  };
}

const std::map<std::string, Kind>& HealthyKinds() {
  static const std::map<std::string, Kind> kinds = {
      {"pool replaced at another line", [](MadeUpProgram& p) { return Pool(p, {kSecond}, false); }},
      {"pool of several sizes, at another line", [](MadeUpProgram& p) { return Pool(p, {kSecond}, true); }},
      {"pool replaced at two other lines",
       [](MadeUpProgram& p) {
         return Pool(p, {kSecond, kThird}, false);
       }},
      {"pool replaced at its own line", [](MadeUpProgram& p) { return Pool(p, {kFirst}, false); }},
      {"pool of several sizes, at its own line", [](MadeUpProgram& p) { return Pool(p, {kFirst}, true); }},
      {"ring buffer", RingBuffer},
      {"queue", Queue},
      {"cache that fills up", [](MadeUpProgram& p) { return Cache(p, false); }},
      {"cache that fills up by rank", [](MadeUpProgram& p) { return Cache(p, true); }},
      {"cache that evicts as it fills", [](MadeUpProgram& p) { return Evicting(p, false); }},
      {"cache of several sizes that evicts", [](MadeUpProgram& p) { return Evicting(p, true); }},
      {"varying batches", VaryingBatches},
      {"seasons", Seasons},
      {"warm-up", WarmUp},
  };
  return kinds;
}

const std::map<std::string, Kind>& LeakingKinds() {
  static const std::map<std::string, Kind> kinds = {
      {"as much in each epoch",
       [](MadeUpProgram& p) -> Behaviour {
         return [blocks = p.Between(1, 20)](MadeUpProgram& running, int) {
           for (int64_t i = 0; i < blocks; ++i) running.Leak(KiB(40), kFirst);
         };
       }},
      {"by chance",
       [](MadeUpProgram&) -> Behaviour {
         return [](MadeUpProgram& running, int) {
           for (int64_t i = running.Below(10); i > 0; --i) running.Leak(EntrySize(running, true), kFirst);
         };
       }},
      {"in every second or third epoch",
       [](MadeUpProgram& p) -> Behaviour {
         return [period = p.Between(2, 3)](MadeUpProgram& running, int epoch) {
           if (epoch % period == 0) running.Leak(KiB(40), kFirst);
         };
       }},
      {"late",
       [](MadeUpProgram& p) -> Behaviour {
         return [begin = p.Between(5, 18)](MadeUpProgram& running, int epoch) {
           if (epoch >= begin) running.Leak(KiB(40), kFirst);
         };
       }},
      {"beside a pool",
       [](MadeUpProgram& p) -> Behaviour {
         return [pool = Pool(p, {kSecond}, true)](MadeUpProgram& running, int epoch) {
           pool(running, epoch);
           running.Leak(KiB(40), kThird);
         };
       }},
      {"beside a full buffer at the same line",
       [](MadeUpProgram& p) -> Behaviour {
         const int64_t entries = p.Between(4, 16);
         return [entries, next = int64_t{0}](MadeUpProgram& running, int) mutable {
           for (int64_t i = 0; i < 3; ++i) running.Keep(next++ % entries, KiB(40), kFirst);
           running.Leak(KiB(40), kFirst);
         };
       }},
      {"beside what fluctuates at the same line",
       [](MadeUpProgram& p) -> Behaviour {
         return [batches = VaryingBatches(p)](MadeUpProgram& running, int epoch) {
           batches(running, epoch);
           for (int i = 0; i < 10; ++i) running.Leak(KiB(100), kFirst);
         };
       }},
  };
  return kinds;
}

struct Accusations {
  int at_last = 0;
  int most = 0;  // at the end of any one epoch after kSettledEpochs
};

// Of how many programs a leak or a growing tensor is told, at kTrendConfidence or more.
Accusations CountAccusations(const Kind& kind) {
  std::vector<int> by_epoch(kEpochs);
  for (unsigned seed = 1; seed <= kPrograms; ++seed) {
    MadeUpProgram program(seed);
    const Behaviour behave = kind(program);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      Background(program, epoch);
      behave(program, epoch);
      program.EndEpoch();
      const LeakFinding finding = program.Judge();
      const bool is_accused = finding.verdict >= LeakVerdict::kLeak && finding.confidence >= kTrendConfidence;
      by_epoch[static_cast<size_t>(epoch)] += is_accused ? 1 : 0;
    }
  }
  return {by_epoch.back(), *std::max_element(by_epoch.begin() + kSettledEpochs, by_epoch.end())};
}

TEST(LeakCalibrationTest, FewHealthyProgramsOfAnyKindAreAccused) {
  std::printf("seeds 1 to %d, %d epochs each\n", kPrograms, kEpochs);
  for (const auto& [name, kind] : HealthyKinds()) {
    const Accusations accused = CountAccusations(kind);
    std::printf("%-40s accused at last %3d, at the worst end of an epoch %3d\n", name.c_str(), accused.at_last,
                accused.most);
    EXPECT_LE(accused.most, kPrograms / 20) << name;
  }
}

TEST(LeakCalibrationTest, NearlyAllLeaksOfAnyKindAreFound) {
  std::printf("seeds 1 to %d, %d epochs each\n", kPrograms, kEpochs);
  for (const auto& [name, kind] : LeakingKinds()) {
    const Accusations accused = CountAccusations(kind);
    std::printf("%-40s found at last %3d\n", name.c_str(), accused.at_last);
    EXPECT_GE(accused.at_last, kPrograms * 19 / 20) << name;
  }
}

}  // namespace
}  // namespace frugal
