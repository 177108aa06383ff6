#include <cstdio>
#include <fstream>
#include <string>

#include "allocator/births/trend.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

// tests/leaks/test_trend.py reads the same table.
TEST(BlockGrowthTest, CasesOnRecordAreJudgedAsPythonJudgesThem) {
  std::ifstream file("tests/allocator/block_growth.json");
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    long long bytes_before = 0;
    long long bytes_after = 0;
    long long blocks_before = 0;
    long long blocks_after = 0;
    if (std::sscanf(line.c_str(), "  {\"name\": \"%*[^\"]\", \"before\": [%lld, %lld], \"after\": [%lld, %lld]",
                    &bytes_before, &blocks_before, &bytes_after, &blocks_after) != 4) {
      continue;
    }
    ++cases;
    const Held before = {Bytes(bytes_before), blocks_before};
    const Held after = {Bytes(bytes_after), blocks_after};
    EXPECT_EQ(AreAsMany(before, after), line.find("\"as_many\": true") != std::string::npos) << line;
    EXPECT_EQ(AreLarger(before, after), line.find("\"larger\": true") != std::string::npos) << line;
  }
  EXPECT_EQ(cases, 10);
}

}  // namespace
}  // namespace frugal
