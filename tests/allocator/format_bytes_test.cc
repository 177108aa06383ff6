#include "allocator/port/format_bytes.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace frugal {
namespace {

// tests/reports/test_amounts.py reads the same table, and has the report page read it.
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
