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

TEST_F(EpochsTest, BlocksCountToTheSiteOfTheirThread) {
  allocator_->EndEpoch();
  CurrentSample::Set({SiteId{3}});
  const Address block = Allocate(KiB(10));
  CurrentSample::Set({});
  allocator_->EndEpoch();
  ASSERT_THAT(report().sites, SizeIs(1));
  EXPECT_EQ(report().sites[0].site, SiteId{3});
  EXPECT_EQ(report().sites[0].largest_block, KiB(16));
  Free(block);
}

}  // namespace
}  // namespace frugal
