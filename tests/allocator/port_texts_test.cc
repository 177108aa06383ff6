// What a person writes or reads: costs, options and amounts as text.

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "allocator/port/driver_costs.h"
#include "allocator/port/format_bytes.h"
#include "allocator/port/policy_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

using ::testing::HasSubstr;

TEST(DriverCostsTest, TextIsReadBackAsItWasWritten) {
  DriverCosts costs;
  int64_t nanoseconds = 1;
#define FRUGAL_SET_COST(name, figure, what) costs.name = nanoseconds *= 3;
  FRUGAL_DRIVER_COSTS(FRUGAL_SET_COST)
#undef FRUGAL_SET_COST
  EXPECT_EQ(*ParseDriverCosts(ToText(costs)), costs);
  EXPECT_EQ(*ParseDriverCosts(ToText(DriverCosts())), DriverCosts());
}

TEST(DriverCostsTest, WhatIsLeftOutKeepsTheTablesFigure) {
  DriverCosts expected;
  expected.map = 2'500;
  expected.release = 0;
  EXPECT_EQ(*ParseDriverCosts("# a GPU\n\n  map\t2.5 # µs\r\nrelease 0"), expected);
  EXPECT_EQ(*ParseDriverCosts(""), DriverCosts());
}

TEST(DriverCostsTest, WhatIsNotACostIsNamedByItsLine) {
  for (const char* line : {"map", "map 2 3", "map two", "map -1", "map inf", "map nan", "map 0x10", "map 1e3", "map .",
                           "map 1000001", "mop 2", "map=2"}) {
    const auto parsed = ParseDriverCosts(std::string("unmap 30\n") + line + "\n");
    ASSERT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(parsed.status().message(), HasSubstr(std::string("line 2, '") + line + "'"));
    EXPECT_EQ(parsed.status().message().find('\n'), std::string::npos);
  }
}

TEST(DriverCostsTest, ANameMayComeOnce) {
  EXPECT_THAT(ParseDriverCosts("map 2\nmap 2\n").status().message(), HasSubstr("keep one"));
}

TEST(DriverCostsTest, MessageShowsNoBytesThatATerminalWouldObey) {
  const auto parsed = ParseDriverCosts("map \x1b[2J" + std::string(500, 'x'));
  EXPECT_EQ(parsed.status().message().find('\x1b'), std::string::npos);
  EXPECT_LT(parsed.status().message().size(), 300u);
}

TEST(PolicyOptions, AreFoundByTheirNamesEachAnotherOne) {
  PolicyOptions options;
  std::set<const int64_t*> found;
#define FRUGAL_EXPECT_FOUND(name, figure, what)         \
  EXPECT_EQ(FindOption(options, #name), &options.name); \
  EXPECT_EQ(options.name, figure) << #name;             \
  found.insert(FindOption(options, #name));
  FRUGAL_POLICY_OPTIONS(FRUGAL_EXPECT_FOUND)
#undef FRUGAL_EXPECT_FOUND
  EXPECT_EQ(found.size() * sizeof(int64_t), sizeof(options)) << "and there are no others";
}

TEST(PolicyOptions, AreNotFoundByAPartOfTheirNamesOrMore) {
  PolicyOptions options;
  for (const char* name : {"", "waste", "waste_part ", "waste_parts", "WASTE_PART"}) {
    EXPECT_EQ(FindOption(options, name), nullptr) << name;
  }
}

// tests/reports/test_amounts.py reads the same table.
TEST(FormatBytesTest, AmountsOnRecordReadAsInPython) {
  std::ifstream file("tests/allocator/format_bytes.json");
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    double size = 0;
    char text[64] = {};
    if (std::sscanf(line.c_str(), "  {\"bytes\": %lf, \"text\": \"%63[^\"]", &size, text) != 2) continue;
    ++cases;
    EXPECT_EQ(FormatBytes(size), text) << line;
    const Bytes whole(static_cast<int64_t>(size));
    if (static_cast<double>(whole.count()) == size) {
      EXPECT_EQ(FormatBytes(whole), text) << line;
    }
  }
  EXPECT_GE(cases, 30);
}

}  // namespace
}  // namespace frugal
