#include "allocator/port/units.h"

#include "gtest/gtest.h"

namespace frugal {
namespace {

TEST(Units, PagesCoverASizeWithTheFewest) {
  EXPECT_EQ(PagesCovering(Bytes(-1)), Pages(0));
  EXPECT_EQ(PagesCovering(Bytes(0)), Pages(0));
  EXPECT_EQ(PagesCovering(Bytes(1)), Pages(1));
  EXPECT_EQ(PagesCovering(kPageSize), Pages(1));
  EXPECT_EQ(PagesCovering(kPageSize + Bytes(1)), Pages(2));
}

TEST(Units, RoundingKeepsMultiples) {
  EXPECT_EQ(RoundUp(Bytes(1), kGrain), kGrain);
  EXPECT_EQ(RoundUp(kGrain, kGrain), kGrain);
  EXPECT_EQ(RoundDown(kPageSize + Bytes(1), kPageSize), kPageSize);
}

TEST(Units, AddressesDifferByBytes) {
  const Address start(0x7000);
  EXPECT_EQ((start + KiB(4)) - start, KiB(4));
  EXPECT_LT(start, start + Bytes(1));
}

}  // namespace
}  // namespace frugal
