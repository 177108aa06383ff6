// The shadow tests as a libFuzzer target: its bytes are programs (random_operations.h). Coverage finds the ways through
// the policy that few random programs take.
//
//   bazel run --config=fuzz //tests/shadow:fuzz -- -max_total_time=60 -use_value_profile=1 DIRECTORY
//
// DIRECTORY keeps the inputs that found something new. An input that fails is printed as a program, and saved as bytes
// that `//tests/shadow:run -- --bytes FILE` makes small.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/shadow/campaign.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMostOperations = 2000;
  frugal::shadow::Choices choices(absl::Span<const uint8_t>(data, size));
  const frugal::shadow::DrawnRun run =
      frugal::shadow::RunDrawn(choices, kMostOperations, frugal::shadow::CheckLevel::kFull);
  if (!run.failure.empty()) {
    std::fprintf(stderr, "%s\n\n%s", run.failure.c_str(), ToText(run.program).c_str());
    std::abort();
  }
  return 0;
}
