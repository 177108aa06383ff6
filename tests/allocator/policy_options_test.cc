#include "allocator/port/policy_options.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace frugal {
namespace {

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

}  // namespace
}  // namespace frugal
