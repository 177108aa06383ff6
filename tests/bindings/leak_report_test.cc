#include "bindings/tracking/leak_report.h"

#include <string>

#include "bindings/tracking/code_owners.h"
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
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int block = 0; block < blocks; ++block) births.Born(size, {site});
    births.EndEpoch();
  }
  return {gpu, {births.epochs_ended(), births.live(), births.Histories()}};
}

TEST(LeakReportTest, LeakIsSaidWithRatePartAndSize) {
  SiteTable sites;
  const GpuEpochs gpu = LeakingGpu(1, 12, sites.FindPhaseSite(sites.phases().Find("evaluation")), 3, KiB(40));
  const LeakReport report = MakeLeakReport({gpu}, sites);
  EXPECT_EQ(report.epochs, 12);
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_THAT(report.text, HasSubstr("frugal_alloc: leak of 120.00 KiB per epoch, after 12 epochs\n"
                                     "GPU 1: 1.41 MiB allocated\n"
                                     "  leak    evaluation: 120.00 KiB per epoch; 1.05 MiB kept in 27 blocks of up to "
                                     "64.00 KiB, from 9 epochs\n"));
  EXPECT_THAT(report.text, HasSubstr("loss.item()"));
}

TEST(LeakReportTest, WhatWouldNotFillTheGpuInTenThousandEpochsIsToldLastAndCounted) {
  SiteTable sites;
  GpuEpochs gpu = LeakingGpu(0, 12, kNoSite, 1, KiB(10));
  gpu.room = KiB(100'000) + KiB(1);
  const LeakReport small = MakeLeakReport({gpu}, sites);
  ASSERT_THAT(small.findings, SizeIs(1));
  EXPECT_FALSE(small.findings[0].material);
  EXPECT_THAT(small.text,
              testing::StartsWith("frugal_alloc: no large leak after 12 epochs\nGPU 0: 120.00 KiB allocated\n"
                                  "1 small one: at this rate memory would last for more than 10,000 "
                                  "epochs\n  leak    no named phase: 10.00 KiB per epoch"));
  EXPECT_THAT(small.text, testing::Not(HasSubstr("loss.item()")));
  gpu.room = KiB(100'000);
  EXPECT_TRUE(MakeLeakReport({gpu}, sites).findings[0].material) << "full after exactly 10,000 epochs";
  gpu.room = std::nullopt;
  EXPECT_TRUE(MakeLeakReport({gpu}, sites).findings[0].material) << "nobody knows";
}

TEST(LeakReportTest, WithoutLeakItSaysSo) {
  SiteTable sites;
  const LeakReport report = MakeLeakReport({LeakingGpu(0, 1, kNoSite, 1, KiB(1))}, sites);
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.text, "frugal_alloc: no leak after 1 epoch; one can be told after 9\nGPU 0: 1.00 KiB allocated\n");
}

TEST(LeakReportTest, SaysThatNothingIsKnownWhereNoEpochEnded) {
  SiteTable sites;
  EXPECT_THAT(MakeLeakReport({}, sites).text, HasSubstr("no epoch has ended"));
}

TEST(LeakReportTest, SuspicionIsSaidAsSuch) {
  SiteTable sites;
  const LeakReport report = MakeLeakReport({LeakingGpu(0, 7, kNoSite, 1, KiB(1))}, sites);
  EXPECT_THAT(report.text, HasSubstr("perhaps a leak of 1.00 KiB per epoch, after 7 epochs"));
  EXPECT_THAT(report.text, HasSubstr("  suspect no named phase: 1.00 KiB per epoch"));
}

TEST(LeakReportTest, TheLargestLeakOfAllGpusIsFirst) {
  SiteTable sites;
  const SiteId site = sites.FindPhaseSite(sites.phases().Find("training"));
  const GpuEpochs small = LeakingGpu(0, 12, site, 1, KiB(1));
  const GpuEpochs large = LeakingGpu(1, 12, site, 1, MiB(1));
  const GpuEpochs suspect = LeakingGpu(2, 7, site, 1, GiB(1));
  const LeakReport report = MakeLeakReport({small, large, suspect}, sites);
  ASSERT_THAT(report.findings, SizeIs(3));
  EXPECT_EQ(report.findings[0].gpu, 1);
  EXPECT_EQ(report.findings[1].gpu, 0);
  EXPECT_EQ(report.findings[2].gpu, 2);
}

TEST(LeakReportTest, WhatIsExpectedToGrowIsLeftOut) {
  SiteTable sites;
  const PhaseId cache = sites.phases().Find("cache");
  const GpuEpochs gpu = LeakingGpu(0, 12, sites.FindPhaseSite(cache), 1, KiB(1));
  sites.phases().ExpectGrowth(cache);
  EXPECT_THAT(MakeLeakReport({gpu}, sites).findings, IsEmpty());
  EXPECT_THAT(MakeLeakReport({gpu}, sites).text, Not(HasSubstr("cache")));
}

TEST(LeakReportTest, WhatGrowsWithoutLeavingAnythingBehindIsSaidToGrow) {
  SiteTable sites;
  const Sample sample{sites.FindPhaseSite(sites.phases().Find("history"))};
  BirthEpochs births;
  uint32_t last = BirthEpochs::kNoCohort;
  for (int epoch = 0; epoch < 12; ++epoch) {
    const uint32_t next = births.Born(KiB(epoch + 1), sample);
    if (epoch > 0) births.Died(last, KiB(epoch));
    last = next;
    births.EndEpoch();
  }
  const GpuEpochs gpu{0, {births.epochs_ended(), births.live(), births.Histories()}};
  EXPECT_THAT(MakeLeakReport({gpu}, sites).text,
              HasSubstr("  growing history: 1.00 KiB per epoch; 12.00 KiB in 1 block\n"));
}

TEST(LeakReportTest, ALeakThatIsSpreadOverSizesIsFound) {
  SiteTable sites;
  const Sample sample{sites.FindPhaseSite(sites.phases().Find("crops"))};
  BirthEpochs births;
  for (int epoch = 0; epoch < 12; ++epoch) {
    births.Born(KiB(1 << epoch), sample);
    births.EndEpoch();
  }
  const GpuEpochs gpu{0, {births.epochs_ended(), births.live(), births.Histories()}};
  const LeakReport report = MakeLeakReport({gpu}, sites);
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.findings[0].leak.verdict, LeakVerdict::kLeak);
  EXPECT_EQ(report.findings[0].latest.surviving_epochs(), 9);
}

TEST(SiteTableTest, WhatHasNoRoomIsCountedAndCostsNothingMore) {
  SiteTable sites;
  for (size_t node = sites.size(); node < SiteTable::kMostSites; ++node) {
    ASSERT_NE(sites.FindNode(node, "AddBackward0", kNoSite, kNoPhase, {}), kNoSite);
  }
  EXPECT_EQ(sites.left_out(), 0);
  EXPECT_EQ(sites.FindPhaseSite(sites.phases().Find("training")), kNoSite);
  const PythonFrame frame = {.code = &sites, .lines = &sites, .file = &sites, .instruction = 0};
  EXPECT_EQ(sites.FindStack(1u << 20, kNoPhase, {frame}), kNoSite);
  EXPECT_EQ(sites.left_out(), 2);
  EXPECT_THROW(static_cast<void>(sites.LineAt(0)), std::out_of_range);
}

TEST(PhaseTableTest, TheSameNameIsTheSamePhase) {
  SiteTable sites;
  EXPECT_EQ(sites.phases().Find(""), kNoPhase);
  EXPECT_EQ(sites.FindPhaseSite(kNoPhase), kNoSite);
  const PhaseId phase = sites.phases().Find("training");
  EXPECT_NE(phase, kNoPhase);
  EXPECT_EQ(sites.phases().Find("training"), phase);
  EXPECT_NE(sites.phases().Find("evaluation"), phase);
  EXPECT_EQ(sites.phases().NameOf(phase), "training");
  EXPECT_EQ(sites.FindPhaseSite(phase), sites.FindPhaseSite(phase));
  EXPECT_TRUE(sites.phases().Has(phase));
  EXPECT_FALSE(sites.phases().Has(PhaseId{99}));
}

TEST(SiteTableTest, MemoryOfABackwardPassBelongsToThePhaseOfItsForwardPass) {
  SiteTable sites;
  const SiteId forward = sites.FindPhaseSite(sites.phases().Find("training"));
  const SiteId node = sites.FindNode(7, "MulBackward0", forward, kNoPhase, {});
  EXPECT_EQ(sites.FindNode(7, "MulBackward0", forward, kNoPhase, {}), node);
  EXPECT_EQ(sites.At(node).node, "MulBackward0");
  EXPECT_EQ(sites.phases().NameOf(sites.At(node).phase), "training");
}

TEST(CodeOwnersTest, TheLongestBeginningDecides) {
  const CodeOwners owners("n/tmp/\nu/tmp/mine/\nn/tmp/mine/cache/\nn/usr/lib/python3/\nn<\nu<stdin>\n");
  EXPECT_FALSE(owners.IsUsers("/tmp/generated/module.py"));
  EXPECT_TRUE(owners.IsUsers("/tmp/mine/train.py"));
  EXPECT_TRUE(owners.IsUsers("/tmp/mine/models/net.py"));
  EXPECT_FALSE(owners.IsUsers("/tmp/mine/cache/ab/cab.py"));
  EXPECT_FALSE(owners.IsUsers("/usr/lib/python3/abc.py"));
  EXPECT_FALSE(owners.IsUsers("<string>"));
  EXPECT_TRUE(owners.IsUsers("<stdin>"));
  EXPECT_TRUE(owners.IsUsers("/home/me/train.py"));
}

TEST(CodeOwnersTest, OfAFlatFolderOnlyTheFilesInItAreTheUsers) {
  const CodeOwners owners("f/tmp/");
  EXPECT_TRUE(owners.IsUsers("/tmp/train.py"));
  EXPECT_FALSE(owners.IsUsers("/tmp/me_pyg/layer.py"));
}

TEST(CodeOwnersTest, AnInstalledPackageIsNeverTheUsers) {
  const CodeOwners owners("u/project/\nu/opt/env/lib/site-packages/mine/");
  EXPECT_FALSE(owners.IsUsers("/project/.venv/lib/python3.11/site-packages/torch/nn/modules/linear.py"));
  EXPECT_FALSE(owners.IsUsers("/usr/lib/python3/dist-packages/numpy/core.py"));
  EXPECT_TRUE(owners.IsUsers("/opt/env/lib/site-packages/mine/train.py"));
}

}  // namespace
}  // namespace frugal
