// Calls fail again and again, or several at places drawn at random. A request may then see the driver's own error;
// nothing is lost all the same, and once calls succeed again the program goes on.
//
//   FRUGAL_FAULTS_ROUNDS=N     how many programs each history is played as (default 160)
//   FRUGAL_TEST_SEED=S         what is drawn (default 1)
//   FRUGAL_FAULTS_HISTORIES=F  the histories of another folder, such as whole recordings

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/environment.h"
#include "tests/faults/faulted_program.h"

namespace frugal {
namespace {

class CallsFailOften : public testing::TestWithParam<std::string> {
 protected:
  CallsFailOften()
      : history_(ReadHistory(GetParam())),
        rounds_(FromEnvironment("FRUGAL_FAULTS_ROUNDS", 160 / kSlowdown)),
        random_(TestSeed()) {}

  // From 0 to `below` - 1.
  uint64_t Draw(uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(random_); }

  // Any of the calls that the history makes when nothing fails.
  std::string DrawCall(const FaultedProgram& undisturbed) {
    sim::CallKind kind;
    do {
      kind = FailingKinds()[Draw(FailingKinds().size())];
    } while (undisturbed.calls(kind) == 0);
    return absl::StrCat(NameOf(kind), "@", 1 + Draw(undisturbed.calls(kind)));
  }
  std::string DrawError() { return FailingErrors()[Draw(FailingErrors().size())]; }

  template <typename DrawFaults>
  void Play(const char* what, DrawFaults draw_faults) {
    struct Kind {
      const char* name;
      bool virtual_memory;
      PolicyOptions policy;
    };
    for (const Kind& kind :
         {Kind{"", true, {}}, Kind{" with large handles", true, LargeHandles()}, Kind{" in segments", false, {}}}) {
      FaultedProgram::Options options = FittingOptions(history_, kind.virtual_memory, kind.policy);
      FaultedProgram undisturbed(history_, options);
      undisturbed.Play();
      Counts counts;
      for (int64_t round = 0; round < rounds_; ++round) {
        draw_faults(undisturbed, options);
        FaultedProgram program(history_, options);
        program.Play();
        for (const std::string& problem : program.problems()) ADD_FAILURE() << problem;
        counts += program.counts();
      }
      counts.Print(absl::StrCat(history_.name, kind.name, ", ", what, ", seed ", TestSeed()), options.memory);
    }
  }

  const History history_;
  const int64_t rounds_;
  std::mt19937_64 random_;
};

TEST_P(CallsFailOften, OnceEachAtRandomLosesNothing) {
  Play("one call", [this](const FaultedProgram& undisturbed, FaultedProgram::Options& options) {
    options.faults = absl::StrCat(DrawCall(undisturbed), "=", DrawError());
  });
}

TEST_P(CallsFailOften, ThreeAtRandomLoseNothing) {
  Play("three calls", [this](const FaultedProgram& undisturbed, FaultedProgram::Options& options) {
    options.fails_again_and_again = true;
    options.faults.clear();
    for (const char* comma : {"", ",", ","}) {
      absl::StrAppend(&options.faults, comma, DrawCall(undisturbed), "=", DrawError());
    }
  });
}

TEST_P(CallsFailOften, AllOfAKindForAWhileLoseNothing) {
  Play("all of a kind", [this](const FaultedProgram& undisturbed, FaultedProgram::Options& options) {
    options.fails_again_and_again = true;
    options.faults = absl::StrCat(DrawCall(undisturbed), "+=", DrawError());
    options.faults_end = static_cast<int64_t>(Draw(history_.events.size()));
  });
}

INSTANTIATE_TEST_SUITE_P(Histories, CallsFailOften, testing::ValuesIn(Histories()),
                         [](const auto& info) { return NameOfHistory(info.param); });

}  // namespace
}  // namespace frugal
