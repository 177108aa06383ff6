// Every call that the allocator makes of the device fails once, in every way that calls fail: for n = 1, 2, 3 ... call
// n of each kind, until a history makes no more. Whatever fails, the program has memory or is out of memory, loses
// nothing, and goes on.

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/environment.h"
#include "tests/faults/faulted_history.h"

namespace frugal {
namespace {

class EveryCallFails : public testing::TestWithParam<std::tuple<std::string, Memory>> {
 protected:
  // Each call of one history; of the others every sixteenth, unless all tests are run.
  static uint64_t Stride() {
    const bool every = std::get<0>(GetParam()) == Histories().front() || FromEnvironment("FRUGAL_TEST_ALL", 0) != 0;
    return every ? kSlowdown : 16 * kSlowdown;
  }
  static void FailEachCall(FaultedHistory& history, sim::CallKind kind, const std::string& error) {
    const uint64_t stride = Stride();
    for (uint64_t call = 1; !HasFailure(); call += stride) {
      history.Play(absl::StrCat(NameOf(kind), "@", call, "=", error));
      if (history.calls(kind) < call) break;
    }
  }
};

TEST_P(EveryCallFails, LosesNothing) {
  const auto& [path, memory] = GetParam();
  const History history = ReadHistory(path);
  FaultedHistory faulted(history, memory, shadow::CheckLevel::kFull);
  for (const sim::CallKind kind : FailingKinds()) {
    for (const std::string& error : FailingErrors()) FailEachCall(faulted, kind, error);
  }
  faulted.Print("each call");
  EXPECT_GT(faulted.tally().faults, 0);
  // A handle is not larger than its request.
  const bool asks_for_two_pages = std::any_of(history.events.begin(), history.events.end(),
                                              [](const HistoryEvent& event) { return event.size >= kPageSize * 2; });
  if (memory.has_large_handles && asks_for_two_pages) {
    EXPECT_GT(faulted.tally().large.created, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Histories, EveryCallFails,
                         testing::Combine(testing::ValuesIn(Histories()), testing::ValuesIn(kMemories)),
                         [](const auto& info) {
                           return absl::StrCat(NameOfHistory(std::get<0>(info.param)), "_in_",
                                               std::get<1>(info.param).name);
                         });

}  // namespace
}  // namespace frugal
