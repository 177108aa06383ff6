#include "allocator/port/driver_costs.h"

#include <string>

#include "absl/status/status.h"
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

}  // namespace
}  // namespace frugal
