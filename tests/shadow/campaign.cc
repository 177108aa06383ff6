#include "tests/shadow/campaign.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/shadow/child_process.h"
#include "tests/shadow/shrinker.h"

namespace frugal::shadow {
namespace {

constexpr int kNoLimitSeconds = 1'000'000;
constexpr int kProgramSeconds = 20;
constexpr size_t kMostOperations = 1 << 16;

// What a child has done so far, for its parent to see when it has ended as it may.
struct Progress {
  uint64_t seed;
  uint64_t programs;
  Tally tally;
  int64_t pages;
  bool movable;
  size_t count;
  std::array<Operation, kMostOperations> operations;
};

// `drawn(program, operation)` is told of each operation before it runs.
template <typename Drawn>
std::string DrawAndRun(RandomOperations operations, const Choices& choices, int64_t most_operations, CheckLevel level,
                       const Between& between, Tally& tally, Drawn drawn) {
  ShadowRun run(operations.program(), level, between);
  for (int64_t i = 0; i < most_operations && !run.failed() && !choices.IsUsedUp(); ++i) {
    const Operation operation = operations.Next(run.live());
    drawn(operations.program(), operation);
    run.Step(operation);
  }
  run.Finish();
  tally += run.tally();
  return run.failure();
}

std::string RunPrograms(const Campaign& campaign, Progress& progress) {
  const int64_t of_program = std::min<int64_t>(campaign.operations_of_program, kMostOperations);
  const auto run = [&](Choices choices) {
    progress.count = 0;
    return DrawAndRun(RandomOperations(choices, campaign.mix), choices, of_program, campaign.level, campaign.between,
                      progress.tally, [&progress](const Program& program, const Operation& operation) {
                        progress.pages = program.pages;
                        progress.movable = program.movable;
                        progress.operations[progress.count++] = operation;
                      });
  };
  if (!campaign.bytes.empty()) return run(Choices(campaign.bytes));
  for (uint64_t seed = campaign.first_seed; progress.tally.operations < campaign.operations; ++seed) {
    progress.seed = seed;
    std::string failure = run(Choices(seed));
    if (!failure.empty()) return failure;
    ++progress.programs;
  }
  return "";
}

std::string RunSafely(const Program& program, CheckLevel level, const Between& between) {
  return RunInChild([&] { return Run(program, level, between); }, kProgramSeconds);
}

}  // namespace

std::string Run(const Program& program, CheckLevel level, const Between& between) {
  ShadowRun run(program, level, between);
  for (const Operation& operation : program.operations) run.Step(operation);
  run.Finish();
  return run.failure();
}

DrawnRun RunDrawn(Choices& choices, int64_t most_operations, CheckLevel level, const Between& between) {
  DrawnRun result;
  result.failure = DrawAndRun(RandomOperations(choices), choices, most_operations, level, between, result.tally,
                              [&result](const Program& program, const Operation& operation) {
                                result.program.pages = program.pages;
                                result.program.movable = program.movable;
                                result.program.operations.push_back(operation);
                              });
  return result;
}

CampaignResult RunCampaign(const Campaign& campaign) {
  static Progress& progress = Shared<Progress>();
  progress.programs = 0;
  progress.tally = Tally();
  const absl::Time start = absl::Now();
  CampaignResult result;
  result.failure = RunInChild([&] { return RunPrograms(campaign, progress); }, kNoLimitSeconds);
  result.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  result.tally = progress.tally;
  result.programs = progress.programs;
  if (result.failure.empty()) return result;
  result.failed_seed = progress.seed;
  const Program failing{
      progress.pages, progress.movable, {progress.operations.begin(), progress.operations.begin() + progress.count}};
  if (!campaign.shrinks) {
    result.shrunk = failing;
    return result;
  }
  result.shrunk = Shrink(failing, [&campaign](const Program& program) {
    return !RunSafely(program, CheckLevel::kFull, campaign.between).empty();
  });
  const std::string failure = RunSafely(result.shrunk, CheckLevel::kFull, campaign.between);
  if (!failure.empty()) result.failure = failure;
  return result;
}

std::string ToText(const Campaign& campaign, const CampaignResult& result) {
  std::string text = absl::StrFormat(
      "%d operations in %d programs (seeds %d to %d): %d allocations, %d out of memory, %d stitches, %d device calls, "
      "%d faults; of handles of several pages %d created, %d moved, %d given up, %d blocks "
      "beside others; %.1f s",
      result.tally.operations, result.programs, campaign.first_seed,
      campaign.first_seed + std::max<uint64_t>(result.programs, 1) - 1, result.tally.allocations,
      result.tally.out_of_memory, result.tally.stitches, result.tally.device_calls, result.tally.faults,
      result.tally.large.created, result.tally.large.moved, result.tally.large.released, result.tally.large.shared,
      result.seconds);
  if (result.failure.empty()) return text;
  return absl::StrFormat("%s\nseed %d fails: %s\nshrunk to %d operations; keep them in tests/corpus/:\n\n%s", text,
                         result.failed_seed, result.failure, result.shrunk.operations.size(), ToText(result.shrunk));
}

}  // namespace frugal::shadow
