// Random operations on the allocator beside a naive model of memory, for as long as one wants.
//
//   bazel run -c opt //tests/shadow:run -- --operations 10000000 --seed 1 --check full
//   bazel run -c opt //tests/shadow:run -- --program tests/corpus/some.txt
//   bazel run -c opt //tests/shadow:run -- --bytes crash-of-libfuzzer
//
// Prints counts, seeds and seconds; a program that fails is made small and printed. The exit status is then 1.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "tests/devices/forwarding_device.h"
#include "tests/shadow/campaign.h"

ABSL_FLAG(int64_t, operations, 1'000'000, "how many operations to run in all");
ABSL_FLAG(int64_t, of_program, 2000, "how many operations a program has");
ABSL_FLAG(uint64_t, seed, 1, "the seed of the first program; the next has the next");
ABSL_FLAG(std::string, check, "full",
          "full: books and invariants after each operation; fast: the models, books now and then; off: answers alone");
ABSL_FLAG(bool, roomy, false, "most programs as in practice, where few requests miss; else nearly all are tight");
ABSL_FLAG(std::string, program, "", "a file with a program to run instead");
ABSL_FLAG(bool, trace, false, "with --program: print each operation and the device calls that it leads to");
ABSL_FLAG(std::string, bytes, "", "a file with a fuzzer's bytes to run instead; what fails is made small");

namespace frugal::shadow {
namespace {

// Prints each call before it is made.
class TracingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

 private:
  absl::Status Before(Call call) override {
    std::printf("    %s\n", kCallNames[static_cast<int>(call)]);
    return absl::OkStatus();
  }
};

[[noreturn]] void Refuse(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(2);
}

std::optional<CheckLevel> LevelFromName(const std::string& name) {
  if (name == "off") return CheckLevel::kOff;
  if (name == "fast") return CheckLevel::kFast;
  if (name == "full") return CheckLevel::kFull;
  return std::nullopt;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Refuse(path + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

int Report(const std::string& failure) {
  std::printf("%s\n", failure.empty() ? "passed" : failure.c_str());
  return failure.empty() ? 0 : 1;
}

int RunProgramFile(const std::string& path, CheckLevel level) {
  const absl::StatusOr<Program> program = ParseProgram(ReadFile(path));
  if (!program.ok()) Refuse(absl::StrCat(path, ": ", program.status().message()));
  if (!absl::GetFlag(FLAGS_trace)) return Report(Run(*program, level));
  ShadowRun run(*program, level, [](Device& device) { return std::make_unique<TracingDevice>(device); });
  for (const Operation& operation : program->operations) {
    std::printf("%s\n", ToText(operation).c_str());
    run.Step(operation);
  }
  std::printf("the end\n");
  run.Finish();
  return Report(run.failure());
}

int RunBytesFile(const std::string& path, CheckLevel level) {
  const std::string text = ReadFile(path);
  const CampaignResult result = RunCampaign({.operations_of_program = std::numeric_limits<int64_t>::max(),
                                             .level = level,
                                             .bytes = {text.begin(), text.end()}});
  return Report(result.failure.empty() ? "" : result.failure + "\n\n" + ToText(result.shrunk));
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Random operations on the allocator beside a naive model of memory.");
  absl::ParseCommandLine(argc, argv);
  const std::optional<CheckLevel> level = LevelFromName(absl::GetFlag(FLAGS_check));
  if (!level.has_value()) Refuse("--check is off, fast or full");
  if (const std::string path = absl::GetFlag(FLAGS_program); !path.empty()) return RunProgramFile(path, *level);
  if (const std::string path = absl::GetFlag(FLAGS_bytes); !path.empty()) return RunBytesFile(path, *level);
  const Campaign campaign{.first_seed = absl::GetFlag(FLAGS_seed),
                          .operations = absl::GetFlag(FLAGS_operations),
                          .operations_of_program = absl::GetFlag(FLAGS_of_program),
                          .level = *level,
                          .mix = absl::GetFlag(FLAGS_roomy) ? Mix::kRoomy : Mix::kTight};
  const CampaignResult result = RunCampaign(campaign);
  std::printf("%s\n", ToText(campaign, result).c_str());
  return result.failure.empty() ? 0 : 1;
}

}  // namespace
}  // namespace frugal::shadow

int main(int argc, char** argv) { return frugal::shadow::Main(argc, argv); }
