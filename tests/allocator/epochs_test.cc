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

}  // namespace
}  // namespace frugal
