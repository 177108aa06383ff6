#include "tests/shadow/campaign.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/shadow/shrinker.h"

namespace frugal::shadow {
namespace {

constexpr int kNoLimitSeconds = 1'000'000;
constexpr int kProgramSeconds = 20;
constexpr size_t kMostOperations = 1 << 16;

// --- Runs a function in a process of its own, so that one that crashes, hangs or ends the process is a result like
// others.

[[noreturn]] void RunAsChild(absl::FunctionRef<std::string()> body, int output, int most_seconds) {
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const rlimit seconds{static_cast<rlim_t>(most_seconds), static_cast<rlim_t>(most_seconds) + 1};
  setrlimit(RLIMIT_CPU, &seconds);
  const std::string failure = body();
  std::fputs(failure.c_str(), stderr);
  std::fflush(nullptr);
  _exit(failure.empty() ? 0 : 1);
}

// "" if `body` returned ""; else what it returned, or what the process wrote on stderr before it ended otherwise, or
// that it took more than `most_seconds` of processor time. `body` runs in a copy of this process: what it changes is
// lost, but for memory that is shared. REQUIRES: this process has one thread.
std::string RunInChild(absl::FunctionRef<std::string()> body, int most_seconds) {
  std::array<int, 2> ends;
  std::fflush(nullptr);
  if (pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = fork();
  if (child < 0) return "no process";
  if (child == 0) {
    close(ends[0]);
    RunAsChild(body, ends[1], most_seconds);
  }
  close(ends[1]);
  std::string output;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    output.append(buffer.data(), static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) return absl::StrFormat("took more than %d s", most_seconds);
  if (!output.empty()) return output;
  return WIFSIGNALED(status) ? absl::StrFormat("ended by signal %d", WTERMSIG(status)) : "failed";
}

// A T in memory that children share with this process. T is trivially copyable; it begins as zeros.
template <typename T>
T& Shared() {
  void* const memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return *static_cast<T*>(memory);
}

// --- Programs.

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

DrawnRun RunDrawn(Choices& choices, int64_t most_operations, CheckLevel level, Mix mix) {
  DrawnRun result;
  result.failure = DrawAndRun(RandomOperations(choices, mix), choices, most_operations, level, nullptr, result.tally,
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
      "beside others; %d parts of blocks slept, %d woke; %.1f s",
      result.tally.operations, result.programs, campaign.first_seed,
      campaign.first_seed + std::max<uint64_t>(result.programs, 1) - 1, result.tally.allocations,
      result.tally.out_of_memory, result.tally.stitches, result.tally.device_calls, result.tally.faults,
      result.tally.large.created, result.tally.large.moved, result.tally.large.released, result.tally.large.shared,
      result.tally.slept, result.tally.woken, result.seconds);
  if (result.failure.empty()) return text;
  return absl::StrFormat("%s\nseed %d fails: %s\nshrunk to %d operations; keep them in tests/corpus/:\n\n%s", text,
                         result.failed_seed, result.failure, result.shrunk.operations.size(), ToText(result.shrunk));
}

}  // namespace frugal::shadow
