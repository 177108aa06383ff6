// Calls fail again and again, or several at places drawn at random. A request may then see the driver's own error;
// nothing is lost all the same, and once calls succeed again the program goes on.
//
//   FRUGAL_FAULTS_ROUNDS=N     how many programs each history is played as (default 160)
//   FRUGAL_TEST_SEED=S         what is drawn (default 1)
//   FRUGAL_FAULTS_HISTORIES=F  the histories of another folder, such as whole recordings

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/environment.h"
#include "tests/faults/faulted_history.h"

namespace frugal {
namespace {

class CallsFailOften : public testing::TestWithParam<std::string> {
 protected:
  // From 0 to `below` - 1.
  uint64_t Draw(uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(random_); }

  // Plays each kind of memory again and again, as `play(undisturbed, history)` does it.
  template <typename PlayOnce>
  void Play(const char* what, PlayOnce play) {
    for (const Memory& memory : kMemories) {
      FaultedHistory undisturbed(history_, memory, shadow::CheckLevel::kFast);
      FaultedHistory history = undisturbed;
      for (int64_t round = 0; round < rounds_ && !HasFailure(); ++round) play(undisturbed, history);
      history.Print(absl::StrCat(what, ", seed ", TestSeed()));
    }
  }
  // Any of the calls that the history makes when nothing fails.
  std::string DrawCall(const FaultedHistory& undisturbed) {
    sim::CallKind kind;
    do {
      kind = FailingKinds()[Draw(FailingKinds().size())];
    } while (undisturbed.calls(kind) == 0);
    return absl::StrCat(NameOf(kind), "@", 1 + Draw(undisturbed.calls(kind)));
  }
  std::string DrawError() { return FailingErrors()[Draw(FailingErrors().size())]; }

  const History history_ = ReadHistory(GetParam());
  const int64_t rounds_ = FromEnvironment("FRUGAL_FAULTS_ROUNDS", 160 / kSlowdown);
  std::mt19937_64 random_{TestSeed()};
};

TEST_P(CallsFailOften, OnceEachAtRandomLosesNothing) {
  Play("one call", [this](const FaultedHistory& undisturbed, FaultedHistory& history) {
    history.Play(absl::StrCat(DrawCall(undisturbed), "=", DrawError()));
  });
}

TEST_P(CallsFailOften, ThreeAtRandomLoseNothing) {
  Play("three calls", [this](const FaultedHistory& undisturbed, FaultedHistory& history) {
    std::string faults;
    for (const char* comma : {"", ",", ","}) {
      absl::StrAppend(&faults, comma, DrawCall(undisturbed), "=", DrawError());
    }
    history.Play(faults);
  });
}

TEST_P(CallsFailOften, AllOfAKindForAWhileLoseNothing) {
  Play("all of a kind", [this](const FaultedHistory& undisturbed, FaultedHistory& history) {
    history.Play(absl::StrCat(DrawCall(undisturbed), "+=", DrawError()), Draw(history.operation_count()));
  });
}

INSTANTIATE_TEST_SUITE_P(Histories, CallsFailOften, testing::ValuesIn(Histories()),
                         [](const auto& info) { return NameOfHistory(info.param); });

}  // namespace
}  // namespace frugal
