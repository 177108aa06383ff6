// What the policy decides, to the call: the same work takes the same driver
// calls and holds the same memory, on record.
//
// The figures are no ideal, but any change of theirs is to be meant: one that
// is not is a bug that the tests of invariants cannot see, such as a cost that
// is subtracted. After a change that is meant, see that they did not get worse,
// and put them on record:
//
//   bazel run //tests/allocator:decisions_test -- --accept

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/shadow/random_operations.h"
#include "tests/shadow/shadow_run.h"

namespace frugal {
namespace {

// By name, as "tight_1, stitches".
using Figures = std::map<std::string, int64_t>;

bool accepts = false;
Figures accepted;

// Below the working directory or, where `bazel run` started the program, below
// the checkout.
std::string FileOnRecord() {
  const char *const checkout = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  return absl::StrCat(checkout == nullptr ? "." : checkout, "/tests/allocator/decisions.json");
}

// Those of one work.
Figures OnRecord(const std::string &work) {
  Figures figures;
  std::ifstream file(FileOnRecord());
  for (std::string line; std::getline(file, line);) {
    char name[128] = {};
    long long number = 0;
    if (std::sscanf(line.c_str(), "  \"%127[^\"]\": %lld", name, &number) != 2) continue;
    if (std::string_view(name).starts_with(work + ", ")) figures[name] = number;
  }
  return figures;
}

// False: the file cannot be written.
bool SaveAccepted() {
  std::ofstream file(FileOnRecord());
  const char *between = "{\n";
  for (const auto &[name, number] : accepted) {
    file << between << "  \"" << name << "\": " << number;
    between = ",\n";
  }
  file << "\n}\n";
  file.close();
  return file.good();
}

struct Work {
  std::string name;
  shadow::Mix mix;
  uint64_t seed;
};

std::vector<Work> AllWorks() {
  std::vector<Work> works;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    works.push_back({absl::StrCat("tight_", seed), shadow::Mix::kTight, seed});
    works.push_back({absl::StrCat("pools_", seed), shadow::Mix::kPools, seed});
    works.push_back({absl::StrCat("roomy_", seed), shadow::Mix::kRoomy, seed});
  }
  return works;
}

class Decisions : public testing::TestWithParam<Work> {
 protected:
  Figures Counted(shadow::ShadowRun &run) const {
    Figures figures;
    const auto enter = [&](const std::string &what, int64_t figure) {
      figures[absl::StrCat(GetParam().name, ", ", what)] = figure;
    };
    for (auto kind :
         {sim::CallKind::kCreate, sim::CallKind::kMap, sim::CallKind::kSetAccess, sim::CallKind::kUnmap,
          sim::CallKind::kRelease, sim::CallKind::kReserve, sim::CallKind::kEventRecord, sim::CallKind::kEventQuery,
          sim::CallKind::kStreamWait, sim::CallKind::kSync, sim::CallKind::kMalloc, sim::CallKind::kFree}) {
      const auto calls = static_cast<int64_t>(run.device().calls(kind));
      if (calls > 0) enter("calls: " + std::string(sim::kCallKindNames[static_cast<size_t>(kind)]), calls);
    }
    const Statistics statistics = run.allocator().GetStatistics();
    enter("peak MiB", run.device().peak().count() >> 20);
    enter("held MiB", run.allocator().inspect().Held().count() >> 20);
    enter("stitches", statistics.num_stitches);
    enter("stitched pages", statistics.num_stitched_pages);
    enter("stream waits", statistics.num_stream_waits);
    enter("out of memory", statistics.num_ooms);
    enter("retries", statistics.num_alloc_retries);
    enter("failed calls", run.tally().faults);
    enter("failed calls absorbed", statistics.num_driver_failures);
    return figures;
  }
};

TEST_P(Decisions, AreThoseOnRecord) {
  constexpr int kOperations = 4000;
  shadow::Choices choices(GetParam().seed);
  shadow::RandomOperations operations(choices, GetParam().mix);
  shadow::ShadowRun run(operations.program(), shadow::CheckLevel::kOff);
  for (int step = 0; step < kOperations; ++step) run.Step(operations.Next(run.live()));
  run.allocator().inspect().CheckInvariants();
  const Figures figures = Counted(run);
  accepted.insert(figures.begin(), figures.end());
  if (!accepts) {
    EXPECT_THAT(figures, testing::ContainerEq(OnRecord(GetParam().name)));
  }
  run.Finish();
  EXPECT_EQ(run.failure(), "");
}

INSTANTIATE_TEST_SUITE_P(Works, Decisions, testing::ValuesIn(AllWorks()),
                         [](const auto &info) { return info.param.name; });

int Run() {
  const int failed = RUN_ALL_TESTS();
  return accepts && !SaveAccepted() ? 1 : failed;
}

}  // namespace
}  // namespace frugal

int main(int argc, char **argv) {
  testing::InitGoogleMock(&argc, argv);
  frugal::accepts = argc == 2 && std::string_view(argv[1]) == "--accept";
  return frugal::Run();
}
