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
    allocator_->inspect().CheckInvariants();
    return allocation->address;
  }
  EpochReport report() const { return allocator_->births().Report(); }
  Bytes LiveAtBoundary() const {
    Bytes live;
    for (const SiteHistory& site : report().sites) live += site.boundaries.back().live;
    return live;
  }
};

TEST_F(EpochsTest, WhatIsOlderThanTheRecordWasBornInTheFirstEpoch) {
  const Address old = Allocate(KiB(10));
  Free(Allocate(MiB(3)));
  Allocate(MiB(4));
  allocator_->births().EndEpoch();
  EXPECT_EQ(report().epochs_ended, 1);
  EXPECT_THAT(report().sites, SizeIs(2));
  EXPECT_EQ(LiveAtBoundary(), KiB(10) + MiB(4));
  Free(old);
  allocator_->births().EndEpoch();
  EXPECT_EQ(LiveAtBoundary(), MiB(4));
}

TEST_F(EpochsTest, ABlockThatAwaitsStreamsIsNoLongerAlive) {
  allocator_->births().EndEpoch();
  const Address block = Allocate(MiB(2));
  UseOn(block, kSide, 100);
  Free(block);
  allocator_->births().EndEpoch();
  EXPECT_EQ(LiveAtBoundary(), Bytes(0));
  AdvanceTo(100);
  Free(Allocate(MiB(2)));
  EXPECT_EQ(LiveAtBoundary(), Bytes(0));
}

TEST_F(EpochsTest, ASnapshotSaysWhereAndWhenBlocksWereBorn) {
  allocator_->births().Start();
  allocator_->births().EndEpoch();
  const Address block = Allocate(KiB(10), SiteId{3});
  const Address unsampled = Allocate(KiB(10), kUnsampled);
  EXPECT_EQ(allocator_->inspect().FindBlock(block)->site, SiteId{3});
  EXPECT_EQ(allocator_->inspect().FindBlock(block)->epoch, 1);
  EXPECT_EQ(allocator_->inspect().FindBlock(unsampled)->site, kUnsampled);
  EXPECT_EQ(allocator_->inspect().FindBlock(unsampled)->epoch, -1);
}

TEST_F(EpochsTest, UsageBySiteSaysWhatIsAliveAndWhatWasAtThePeak) {
  EXPECT_THAT(allocator_->births().Usages(), IsEmpty()) << "nobody asked for a record";
  EXPECT_EQ(allocator_->births().TakeHighest(), Bytes(0));
  allocator_->births().RestartPeak();
  allocator_->births().Start();
  const Address block = Allocate(MiB(4), SiteId{3});
  Free(Allocate(MiB(8), SiteId{4}));
  EXPECT_THAT(allocator_->births().Usages(), SizeIs(2));
  EXPECT_EQ(allocator_->births().TakeHighest(), MiB(12));
  EXPECT_EQ(allocator_->births().TakeHighest(), MiB(4)) << "since the last time it was asked";
  allocator_->births().RestartPeak();
  ASSERT_THAT(allocator_->births().Usages(), SizeIs(1));
  EXPECT_EQ(allocator_->births().Usages()[0].site, SiteId{3});
  Free(Allocate(MiB(8), SiteId{4}));
  EXPECT_THAT(allocator_->births().Usages(), SizeIs(2));
  allocator_->ResetPeakStatistics();
  EXPECT_THAT(allocator_->births().Usages(), SizeIs(1)) << "one reset is for both";
  Free(block);
}

}  // namespace
}  // namespace frugal
