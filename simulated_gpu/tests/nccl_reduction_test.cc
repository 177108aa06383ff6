#include "simulated_gpu/libraries/nccl_reduction.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "simulated_gpu/libraries/nccl_types.h"

namespace frugal::sim::nccl {
namespace {

template <typename Element>
Element ReduceOne(int op, int type, const std::vector<Element>& parts) {
  std::vector<const void*> places;
  for (const Element& part : parts) places.push_back(&part);
  Element result{};
  Reduce({op, type, 1}, places, &result, 1);
  return result;
}

TEST(NcclReductionTest, IntegersWrapAround) {
  EXPECT_EQ(ReduceOne<uint8_t>(kSum, kUint8, {200, 100}), 44);
  EXPECT_EQ(ReduceOne<int8_t>(kSum, kInt8, {100, 100}), -56);
  EXPECT_EQ(ReduceOne<int32_t>(kProduct, kInt32, {65536, 65536}), 0);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ReduceOne<int64_t>(kSum, kInt64, {kMost, 1}), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(ReduceOne<uint64_t>(kMaximum, kUint64, {1, UINT64_MAX}), UINT64_MAX);
}

TEST(NcclReductionTest, NumberThatIsNoneStaysSo) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(ReduceOne<float>(kMaximum, kFloat32, {1, none})));
  EXPECT_TRUE(std::isnan(ReduceOne<float>(kMinimum, kFloat32, {none, 1})));
}

TEST(NcclReductionTest, HalfPrecisionIsRoundedOnceAndToEven) {
  constexpr uint16_t kOne = 0x3c00;
  EXPECT_EQ(ReduceOne<uint16_t>(kSum, kFloat16, {kOne, kOne}), 0x4000);
  EXPECT_EQ(ReduceOne<uint16_t>(kSum, kFloat16, {kOne, 0x1000}), kOne) << "1 + 2^-11 is half way, and 1 is even";
  EXPECT_EQ(ReduceOne<uint16_t>(kSum, kFloat16, {kOne, 0x1000, 0x1000}), kOne + 1) << "1 + 2^-10 is a number";
  EXPECT_EQ(ReduceOne<uint16_t>(kSum, kFloat16, {0x7bff, 0x7bff}), 0x7c00) << "infinity";
  EXPECT_EQ(ReduceOne<uint16_t>(kSum, kFloat16, {0x0001, 0x0001}), 0x0002) << "below the smallest normal one";
  EXPECT_EQ(ReduceOne<uint16_t>(kSum, kFloat16, {0xbc00, kOne}), 0x0000);
  EXPECT_EQ(ReduceOne<uint16_t>(kAverage, kFloat16, {0x7e00, kOne}) & 0x7c00, 0x7c00);
}

TEST(NcclReductionTest, EveryHalfPrecisionNumberComesBackAsItWas) {
  for (uint32_t bits = 0; bits <= UINT16_MAX; ++bits) {
    const bool is_none = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0;
    if (is_none) continue;
    const auto number = static_cast<uint16_t>(bits);
    ASSERT_EQ(ReduceOne<uint16_t>(kSum, kFloat16, {number}), number);
    ASSERT_EQ(ReduceOne<uint16_t>(kMaximum, kFloat16, {number, number}), number);
  }
}

TEST(NcclReductionTest, BrainFloatsAreRoundedOnceAndToEven) {
  constexpr uint16_t kOne = 0x3f80;
  EXPECT_EQ(ReduceOne<uint16_t>(kSum, kBfloat16, {kOne, kOne}), 0x4000);
  EXPECT_EQ(ReduceOne<uint16_t>(kSum, kBfloat16, {kOne, 0x3b80}), kOne) << "1 + 2^-8 is half way";
  EXPECT_EQ(ReduceOne<uint16_t>(kSum, kBfloat16, {kOne, 0x3b80, 0x3b80}), kOne + 1);
  EXPECT_TRUE(std::isnan(ToDouble(kBfloat16, std::vector<uint16_t>{0x7fc0}.data())));
}

TEST(NcclReductionTest, TargetMayBeAPart) {
  std::vector<int32_t> mine = {1, 2, 3};
  const std::vector<int32_t> other = {10, 20, 30};
  Reduce({kSum, kInt32, 1}, {mine.data(), other.data()}, mine.data(), mine.size());
  EXPECT_EQ(mine, (std::vector<int32_t>{11, 22, 33}));
}

TEST(NcclReductionTest, FactorMultipliesInPlace) {
  std::vector<double> numbers = {1, 2, 3};
  Scale({kSum, kFloat64, 0.5}, numbers.data(), numbers.size());
  EXPECT_EQ(numbers, (std::vector<double>{0.5, 1, 1.5}));
}

TEST(NcclReductionTest, NumbersOfEightBitsAreNotReduced) {
  EXPECT_FALSE(CanReduce({kSum, kFloat8e4m3, 1}));
  EXPECT_FALSE(CanReduce({kFirstOwnOperator, kFloat32, 1}));
  EXPECT_TRUE(CanReduce({kAverage, kBfloat16, 1}));
}

}  // namespace
}  // namespace frugal::sim::nccl
