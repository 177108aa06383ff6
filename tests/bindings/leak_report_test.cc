#include "bindings/leak_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// A GPU on which, in each epoch, so many blocks of this size are left behind at a site.
GpuEpochs LeakingGpu(int gpu, int epochs, SiteId site, int blocks, Bytes size) {
  BirthEpochs births;
  CurrentSite::Set(site);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int block = 0; block < blocks; ++block) births.Born(size);
    births.EndEpoch();
  }
  CurrentSite::Set(kNoSite);
  return {gpu, {births.epochs_ended(), births.live(), births.Histories()}};
}

TEST(LeakReportTest, LeakIsSaidWithRatePartAndSize) {
  SiteNames names;
  const GpuEpochs gpu = LeakingGpu(1, 12, names.Find("evaluation"), 3, KiB(40));
  const LeakReport report = MakeLeakReport({gpu}, names);
  EXPECT_EQ(report.epochs, 12);
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_THAT(report.text, HasSubstr("frugal_alloc: leak of 120.00 KiB per epoch, after 12 epochs\n"
                                     "GPU 1: 1.41 MiB in use\n"
                                     "  leak    evaluation: 120.00 KiB per epoch; 1.05 MiB kept in 27 blocks of up to "
                                     "64.00 KiB, from 9 epochs\n"));
  EXPECT_THAT(report.text, HasSubstr("loss.item()"));
}

TEST(LeakReportTest, WithoutLeakItSaysSo) {
  SiteNames names;
  const LeakReport report = MakeLeakReport({LeakingGpu(0, 1, kNoSite, 1, KiB(1))}, names);
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.text, "frugal_alloc: no leak after 1 epoch; one can be told after 9\nGPU 0: 1.00 KiB in use\n");
}

TEST(LeakReportTest, SaysThatNothingIsKnownWhereNoEpochEnded) {
  SiteNames names;
  EXPECT_THAT(MakeLeakReport({}, names).text, HasSubstr("no epoch has ended"));
}

TEST(LeakReportTest, SuspicionIsSaidAsSuch) {
  SiteNames names;
  const LeakReport report = MakeLeakReport({LeakingGpu(0, 7, kNoSite, 1, KiB(1))}, names);
  EXPECT_THAT(report.text, HasSubstr("perhaps a leak of 1.00 KiB per epoch, after 7 epochs"));
  EXPECT_THAT(report.text, HasSubstr("  suspect no named part: 1.00 KiB per epoch"));
}

TEST(LeakReportTest, TheLargestLeakOfAllGpusIsFirst) {
  SiteNames names;
  const SiteId site = names.Find("training");
  const GpuEpochs small = LeakingGpu(0, 12, site, 1, KiB(1));
  const GpuEpochs large = LeakingGpu(1, 12, site, 1, MiB(1));
  const GpuEpochs suspect = LeakingGpu(2, 7, site, 1, GiB(1));
  const LeakReport report = MakeLeakReport({small, large, suspect}, names);
  ASSERT_THAT(report.findings, SizeIs(3));
  EXPECT_EQ(report.findings[0].gpu, 1);
  EXPECT_EQ(report.findings[1].gpu, 0);
  EXPECT_EQ(report.findings[2].gpu, 2);
}

TEST(LeakReportTest, WhatIsExpectedToGrowIsLeftOut) {
  SiteNames names;
  const SiteId cache = names.Find("cache");
  const GpuEpochs gpu = LeakingGpu(0, 12, cache, 1, KiB(1));
  names.ExpectGrowth(cache);
  EXPECT_THAT(MakeLeakReport({gpu}, names).findings, IsEmpty());
  EXPECT_THAT(MakeLeakReport({gpu}, names).text, Not(HasSubstr("cache")));
}

TEST(SiteNamesTest, TheSameNameIsTheSameSite) {
  SiteNames names;
  EXPECT_EQ(names.Find(""), kNoSite);
  const SiteId site = names.Find("training");
  EXPECT_NE(site, kNoSite);
  EXPECT_EQ(names.Find("training"), site);
  EXPECT_NE(names.Find("evaluation"), site);
  EXPECT_EQ(names.Name(site), "training");
  EXPECT_TRUE(names.Has(site));
  EXPECT_FALSE(names.Has(SiteId{99}));
}

}  // namespace
}  // namespace frugal
