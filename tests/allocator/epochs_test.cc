// DeviceAllocator's record of births: every way by which a block comes and goes is entered. The fixture compares the
// record with the statistics after each call.

#include <vector>

#include "allocator_fixture.h"
#include "gmock/gmock.h"

namespace frugal {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class EpochsTest : public AllocatorTest {
 protected:
  Address Allocate(Bytes size, SiteId site = kNoSite) {
    const absl::StatusOr<Allocation> allocation = allocator_->Allocate(size, kMain, nullptr, Bytes(0), {site});
    allocator_->CheckInvariants();
    return allocation->address;
  }
  DeviceAllocator::EpochReport report() const { return allocator_->GetEpochReport(); }
  Bytes LiveAtBoundary() const {
    Bytes live;
    for (const SiteHistory& site : report().sites) live += site.boundaries.back().live;
    return live;
  }
};

TEST_F(EpochsTest, NothingIsRecordedBeforeTheFirstEpochEnds) {
  Allocate(KiB(10));
  EXPECT_EQ(report().epochs_ended, 0);
  EXPECT_EQ(report().live, KiB(10));
  EXPECT_THAT(report().sites, IsEmpty());
}

TEST_F(EpochsTest, WhatIsOlderThanTheRecordWasBornInTheFirstEpoch) {
  const Address old = Allocate(KiB(10));
  Free(Allocate(MiB(3)));
  Allocate(MiB(4));
  allocator_->EndEpoch();
  EXPECT_EQ(report().epochs_ended, 1);
  EXPECT_THAT(report().sites, SizeIs(2));
  EXPECT_EQ(LiveAtBoundary(), KiB(10) + MiB(4));
  Free(old);
  allocator_->EndEpoch();
  EXPECT_EQ(LiveAtBoundary(), MiB(4));
}

TEST_F(EpochsTest, ABlockThatAwaitsStreamsIsNoLongerAlive) {
  allocator_->EndEpoch();
  const Address block = Allocate(MiB(2));
  UseOn(block, kSide, 100);
  Free(block);
  allocator_->EndEpoch();
  EXPECT_EQ(LiveAtBoundary(), Bytes(0));
  AdvanceTo(100);
  Free(Allocate(MiB(2)));
  EXPECT_EQ(LiveAtBoundary(), Bytes(0));
}

TEST_F(EpochsTest, BlocksCountToTheSiteThatTheyAreRecordedWith) {
  allocator_->EndEpoch();
  const Address block = Allocate(KiB(10), SiteId{3});
  allocator_->EndEpoch();
  ASSERT_THAT(report().sites, SizeIs(1));
  EXPECT_EQ(report().sites[0].site, SiteId{3});
  EXPECT_EQ(report().sites[0].largest_block, KiB(16));
  Free(block);
}

TEST_F(EpochsTest, ASnapshotSaysWhereAndWhenBlocksWereBorn) {
  allocator_->RecordBirths();
  allocator_->EndEpoch();
  const Address block = Allocate(KiB(10), SiteId{3});
  const Address unsampled = Allocate(KiB(10), kUnsampled);
  EXPECT_EQ(allocator_->FindBlock(block)->site, SiteId{3});
  EXPECT_EQ(allocator_->FindBlock(block)->epoch, 1);
  EXPECT_EQ(allocator_->FindBlock(unsampled)->site, kUnsampled);
  EXPECT_EQ(allocator_->FindBlock(unsampled)->epoch, -1);
}

TEST_F(EpochsTest, UsageBySiteSaysWhatIsAliveAndWhatWasAtThePeak) {
  EXPECT_THAT(allocator_->SiteUsages(), IsEmpty()) << "nobody asked for a record";
  EXPECT_EQ(allocator_->TakeHighestRecorded(), Bytes(0));
  allocator_->RestartSitePeaks();
  allocator_->RecordBirths();
  const Address block = Allocate(MiB(4), SiteId{3});
  Free(Allocate(MiB(8), SiteId{4}));
  EXPECT_THAT(allocator_->SiteUsages(), SizeIs(2));
  EXPECT_EQ(allocator_->TakeHighestRecorded(), MiB(12));
  EXPECT_EQ(allocator_->TakeHighestRecorded(), MiB(4)) << "since the last time it was asked";
  allocator_->RestartSitePeaks();
  ASSERT_THAT(allocator_->SiteUsages(), SizeIs(1));
  EXPECT_EQ(allocator_->SiteUsages()[0].site, SiteId{3});
  Free(Allocate(MiB(8), SiteId{4}));
  EXPECT_THAT(allocator_->SiteUsages(), SizeIs(2));
  allocator_->ResetPeakStatistics();
  EXPECT_THAT(allocator_->SiteUsages(), SizeIs(1)) << "one reset is for both";
  Free(block);
}

TEST_F(EpochsTest, BirthsAreRecordedFromTheMomentThatTheyAreAskedFor) {
  Allocate(MiB(4), SiteId{3});
  allocator_->RecordBirths();
  const Address block = Allocate(MiB(8), SiteId{4});
  EXPECT_EQ(allocator_->FindBlock(block)->site, SiteId{4});
  EXPECT_EQ(allocator_->FindBlock(block)->epoch, 0);
}

TEST_F(EpochsTest, EpochsBecomeFewerWhereTheyWereTooMany) {
  allocator_->RecordBirths();
  Allocate(MiB(4), SiteId{3});
  for (int i = 0; i < 8; ++i) allocator_->EndEpoch();
  EXPECT_EQ(report().epochs_ended, 8);
  allocator_->HalveEpochs();
  EXPECT_EQ(report().epochs_ended, 4);
  EXPECT_EQ(LiveAtBoundary(), MiB(4));
  allocator_->CollapseEpochs();
  EXPECT_EQ(report().epochs_ended, 0);
  allocator_->CheckInvariants();
  allocator_->EndEpoch();
  EXPECT_EQ(LiveAtBoundary(), MiB(4));
}

}  // namespace
}  // namespace frugal
