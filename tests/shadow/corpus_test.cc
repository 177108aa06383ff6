// Every program of tests/corpus/ passes: what failed once, and the shortest way to each rare path.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/shadow/campaign.h"

namespace frugal::shadow {
namespace {

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/corpus")) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class Corpus : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Corpus, ProgramPasses) {
  std::ifstream file(GetParam());
  const absl::StatusOr<Program> program = ParseProgram(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_TRUE(program.ok()) << GetParam() << ": " << program.status();
  EXPECT_EQ(shadow::Run(*program, CheckLevel::kFull), "");
}

INSTANTIATE_TEST_SUITE_P(, Corpus, testing::ValuesIn(Files()),
                         [](const auto& instance) { return instance.param.stem().string(); });

}  // namespace
}  // namespace frugal::shadow
