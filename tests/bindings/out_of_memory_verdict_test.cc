#include "bindings/tracking/out_of_memory_verdict.h"

#include "gtest/gtest.h"

namespace frugal {
namespace {

// 80 GiB of which nothing is left, all of it in tensors; a request of 2 GiB.
OutOfMemoryFacts FullGpu() {
  OutOfMemoryFacts facts;
  facts.requested = GiB(2);
  facts.device_total = facts.limit = GiB(80);
  facts.outside = GiB(1);
  facts.reserved = facts.allocated = GiB(79);
  return facts;
}

OutOfMemoryVerdict Verdict(OutOfMemoryFacts facts, Bytes leaked = Bytes(0)) {
  facts.missing = MissingBytes(facts);
  return JudgeOutOfMemory(facts, leaked);
}

TEST(OutOfMemoryVerdictTest, WhatIsMissingIsTheRequestLessAllThatCouldBeHad) {
  OutOfMemoryFacts facts = FullGpu();
  EXPECT_EQ(MissingBytes(facts), GiB(2));
  facts.allocated -= GiB(3);
  facts.unusable = GiB(2);
  EXPECT_EQ(MissingBytes(facts), GiB(1));
  facts.reserved -= GiB(1);
  facts.device_free = GiB(1);
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
  OutOfMemoryFacts facts = FullGpu();
  facts.allocated -= GiB(3);
  facts.unusable = GiB(3);
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kFragmentation);
  EXPECT_EQ(Verdict(facts, GiB(10)), OutOfMemoryVerdict::kLeak);
  facts.requested = MiB(16);
  facts.allocated = facts.reserved - MiB(16);
  facts.unusable = MiB(16);
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kTooBig);
}

TEST(OutOfMemoryVerdictTest, MemoryOutsideIsTheCauseIfItIsMoreThanAContextTakes) {
  OutOfMemoryFacts facts = FullGpu();
  facts.reserved = facts.allocated = GiB(70);
  facts.outside = GiB(10);
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kOutside);
  facts.requested = GiB(9);
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kTooBig);
}

TEST(OutOfMemoryVerdictTest, MemoryOutsideIsNoCauseWhereALimitRefuses) {
  OutOfMemoryFacts facts = FullGpu();
  facts.limit = facts.reserved = facts.allocated = GiB(10);
  facts.outside = GiB(40);
  facts.device_free = GiB(30);
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kTooBig);
  // With nothing free, others have what the limit allows.
  facts.outside = GiB(70);
  facts.device_free = Bytes(0);
  facts.limit = GiB(12);
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kOutside);
  facts.limit = GiB(11);
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kTooBig);
}

// Half a GiB of a GPU of 2 GiB is nobody's to give back.
TEST(OutOfMemoryVerdictTest, AContextIsNeverTheCause) {
  OutOfMemoryFacts facts = FullGpu();
  facts.device_total = facts.limit = GiB(2);
  facts.outside = MiB(512);
  facts.reserved = facts.allocated = MiB(1536);
  facts.requested = MiB(128);
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kTooBig);
}

TEST(OutOfMemoryVerdictTest, OnASmallGpuWhatIsBeyondItsContextIsTheCause) {
  OutOfMemoryFacts facts = FullGpu();
  facts.device_total = facts.limit = GiB(2);
  facts.outside = GiB(1);
  facts.reserved = facts.allocated = GiB(1);
  facts.requested = MiB(256);
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kOutside);
  facts.requested = MiB(512);
  EXPECT_EQ(Verdict(facts), OutOfMemoryVerdict::kTooBig);
}

}  // namespace
}  // namespace frugal
