#include "bindings/out_of_memory_verdict.h"

#include "gtest/gtest.h"

namespace frugal {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// 80 GiB of which nothing is left, all of it in tensors; a request of 2 GiB.
frugal_out_of_memory FullGpu() {
  frugal_out_of_memory facts = {};
  facts.requested = 2 * kGiB;
  facts.device_total = facts.limit = 80 * kGiB;
  facts.outside = kGiB;
  facts.reserved = facts.allocated = 79 * kGiB;
  return facts;
}

OutOfMemoryVerdict Verdict(frugal_out_of_memory facts, Bytes leaked = Bytes(0)) {
  facts.missing = MissingBytes(facts).count();
  return JudgeOutOfMemory(facts, leaked);
}

TEST(OutOfMemoryVerdictTest, WhatIsMissingIsTheRequestLessAllThatCouldBeHad) {
  frugal_out_of_memory facts = FullGpu();
  EXPECT_EQ(MissingBytes(facts), GiB(2));
  facts.allocated -= 3 * kGiB;
  facts.unusable = 2 * kGiB;
  EXPECT_EQ(MissingBytes(facts), GiB(1));
  facts.reserved -= kGiB;
  facts.device_free = kGiB;
  EXPECT_EQ(MissingBytes(facts), GiB(1));
  facts.limit = facts.reserved;
  EXPECT_EQ(MissingBytes(facts), GiB(2));
}

TEST(OutOfMemoryVerdictTest, WhereTensorsFillTheGpuTheRequestIsTooBig) {
  EXPECT_EQ(Verdict(FullGpu()), OutOfMemoryVerdict::kTooBig);
}

TEST(OutOfMemoryVerdictTest, ALeakIsTheCauseIfTheRequestWouldFitWithoutIt) {
  EXPECT_EQ(Verdict(FullGpu(), GiB(3)), OutOfMemoryVerdict::kLeak);
  EXPECT_EQ(Verdict(FullGpu(), GiB(1)), OutOfMemoryVerdict::kTooBig);
}

TEST(OutOfMemoryVerdictTest, FragmentationIsTheCauseIfThereIsMuchOfIt) {
  frugal_out_of_memory facts = FullGpu();
  facts.allocated -= 3 * kGiB;
  facts.unusable = 3 * kGiB;
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kFragmentation);
  EXPECT_EQ(Verdict(facts, GiB(10)), OutOfMemoryVerdict::kLeak);
  facts.requested = kGiB / 64;
  facts.allocated = facts.reserved - kGiB / 64;
  facts.unusable = kGiB / 64;
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kTooBig);
}

TEST(OutOfMemoryVerdictTest, MemoryOutsideIsTheCauseIfItIsMoreThanAContextTakes) {
  frugal_out_of_memory facts = FullGpu();
  facts.reserved = facts.allocated = 70 * kGiB;
  facts.outside = 10 * kGiB;
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kOutside);
  facts.requested = 9 * kGiB;
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kTooBig);
}

// Half a GiB of a GPU of 2 GiB is nobody's to give back.
TEST(OutOfMemoryVerdictTest, AContextIsNeverTheCause) {
  frugal_out_of_memory facts = FullGpu();
  facts.device_total = facts.limit = 2 * kGiB;
  facts.outside = kGiB / 2;
  facts.reserved = facts.allocated = 3 * kGiB / 2;
  facts.requested = kGiB / 8;
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kTooBig);
}

TEST(OutOfMemoryVerdictTest, OnASmallGpuWhatIsBeyondItsContextIsTheCause) {
  frugal_out_of_memory facts = FullGpu();
  facts.device_total = facts.limit = 2 * kGiB;
  facts.outside = kGiB;
  facts.reserved = facts.allocated = kGiB;
  facts.requested = kGiB / 4;
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kOutside);
  facts.requested = kGiB / 2;
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kTooBig);
}

}  // namespace
}  // namespace frugal
