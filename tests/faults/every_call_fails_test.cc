// Every call that the allocator makes of the device fails once, in every way that calls fail: for n = 1, 2, 3 ... call
// n of each kind, until a history makes no more. Whatever fails, the program has memory or is out of memory, loses
// nothing, and goes on.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/environment.h"
#include "tests/faults/faulted_program.h"

namespace frugal {
namespace {

class EveryCallFails : public testing::TestWithParam<std::string> {
 protected:
  Counts FailEachCall(const char* what, bool virtual_memory, const PolicyOptions& policy = {}) {
    const History history = ReadHistory(GetParam());
    const FaultedProgram::Options options = FittingOptions(history, virtual_memory, policy);
    Counts counts;
    for (const sim::CallKind kind : FailingKinds()) {
      for (const std::string& error : FailingErrors()) FailEachCall(history, options, kind, error, counts);
    }
    counts.Print(absl::StrCat(history.name, what), options.memory);
    EXPECT_GT(counts.faults, 0);
    return counts;
  }

  // Each call of one history; of the others every sixteenth, unless all tests are run.
  static uint64_t Stride() {
    const bool every = GetParam() == Histories().front() || FromEnvironment("FRUGAL_TEST_ALL", 0) != 0;
    return every ? kSlowdown : 16 * kSlowdown;
  }

  static void FailEachCall(const History& history, FaultedProgram::Options options, sim::CallKind kind,
                           const std::string& error, Counts& counts) {
    const uint64_t stride = Stride();
    for (uint64_t call = 1;; call += stride) {
      options.faults = absl::StrCat(NameOf(kind), "@", call, "=", error);
      FaultedProgram program(history, options);
      program.Play();
      for (const std::string& problem : program.problems()) ADD_FAILURE() << problem;
      counts += program.counts();
      if (program.calls(kind) < call) break;
    }
  }
};

TEST_P(EveryCallFails, LosesNothing) { FailEachCall("", /*virtual_memory=*/true); }

TEST_P(EveryCallFails, LosesNothingOfLargeHandles) {
  const History history = ReadHistory(GetParam());
  const bool asks_for_two_pages = std::any_of(history.events.begin(), history.events.end(),
                                              [](const HistoryEvent& event) { return event.size >= kPageSize * 2; });
  const Counts counts = FailEachCall(" with large handles", /*virtual_memory=*/true, LargeHandles());
  // A handle is not larger than its request.
  if (asks_for_two_pages) {
    EXPECT_GT(counts.large_handles, 0);
  }
}

TEST_P(EveryCallFails, LosesNothingOfSegments) { FailEachCall(" in segments", /*virtual_memory=*/false); }

INSTANTIATE_TEST_SUITE_P(Histories, EveryCallFails, testing::ValuesIn(Histories()),
                         [](const auto& info) { return NameOfHistory(info.param); });

}  // namespace
}  // namespace frugal
