// Where blocks go, and when the device is asked.

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using Placement = AllocatorTest;

TEST_F(Placement, ManySmallBlocksShareOnePage) {
  for (int i = 0; i < 4096; ++i) Allocate(Bytes(1));
  EXPECT_EQ(all(statistics().reserved_bytes), kPageSize.count());
  EXPECT_EQ(calls(CallKind::kCreate), 1u);
}

TEST_F(Placement, HolesTooSmallApartServeOneRequestTogether) {
  // 64 MiB in 32 blocks; every second one is freed, so that no two free pages lie side by side.
  std::vector<Address> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(Allocate(MiB(2)));
  for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
  device_.ResetCounters();
  Allocate(MiB(32));
  EXPECT_EQ(calls(CallKind::kCreate), 0u);
  EXPECT_EQ(calls(CallKind::kMap), 16u);
  EXPECT_EQ(calls(CallKind::kSetAccess), 1u) << "one call for the whole range, whatever it is made of";
  EXPECT_EQ(calls(CallKind::kUnmap), 0u) << "an old view costs nothing while nobody wants its place";
  EXPECT_EQ(statistics().num_stitches, 1);
  EXPECT_EQ(statistics().num_stitched_pages, 16);
}

TEST_F(Placement, WhatWasGivenBackIsNobodysAnyMore) {
  const Address block = Allocate(MiB(3));
  Free(block);
  EXPECT_TRUE(absl::IsNotFound(allocator_->Free(block).status())) << "freed twice";
  EXPECT_TRUE(absl::IsNotFound(allocator_->RecordStream(block, kSide)));
  EXPECT_TRUE(allocator_->inspect().StreamsOf(block).empty());
  EXPECT_FALSE(allocator_->inspect().FindBlock(block + MiB(3)).has_value());
}

TEST_F(Placement, ARequestOfAllThatIsHeldAsksForNothingMore) {
  const auto play = [this] {
    const Address mine = Allocate(MiB(16), kMain);
    const Address others = Allocate(MiB(16), kSide);
    Free(mine);
    Free(others);
    device_.ResetCounters();
    Free(Allocate(MiB(32), kMain));
    EXPECT_EQ(calls(CallKind::kCreate), 0u);
  };
  play();
  play();
  EXPECT_EQ(calls(CallKind::kMemoryInfo), 0u) << "that the device can hold it is known";
}

// What is free beside blocks in use, and how much that can be.
class Unusable : public AllocatorTest {
 protected:
  Unusable() : AllocatorTest(GiB(4)) {}

  Bytes unusable() const {
    Bytes bytes;
    for (const SegmentView& segment : allocator_->inspect().Snapshot()) bytes += segment.unusable;
    return bytes;
  }
};

TEST_F(Unusable, IsTwoHandlesForEachSmallBlockThatStaysWhateverCameBefore) {
  const Address large = Allocate(GiB(2));
  Free(large);
  std::vector<Address> fill;
  for (int i = 0; i < 300; ++i) {
    fill.push_back(Allocate(MiB(2) + KiB(4)));
    Allocate(MiB(1) + KiB(4));
  }
  for (Address block : fill) Free(block);
  EXPECT_GT(unusable(), Bytes(0));
  EXPECT_LE(unusable(), MiB(16) * 2 * 300);
  const Bytes in_use = (MiB(1) + KiB(4)) * 300;
  EXPECT_TRUE(allocator_->Allocate(GiB(4) - in_use - unusable(), kMain).ok()) << "all else is for a large one";
}

class PlacementInLittle : public AllocatorTest {
 protected:
  PlacementInLittle() : AllocatorTest(MiB(48)) {}
};

// The only place that does not lie in pages of handles that are lent joins two free blocks, whose pages it cannot take.
TEST_F(PlacementInLittle, FindsAPlaceApartInTheRangeThatIsThere) {
  Allocate(MiB(6), Stream{1});
  const Address second = Allocate(MiB(4), Stream{4});
  Allocate(Bytes(1), Stream{1});
  Allocate(MiB(4), Stream{1});
  const Address between = Allocate(KiB(1950), Stream{4});
  Allocate(MiB(2), Stream{1});
  const Address last = Allocate(MiB(10), Stream{4});
  Allocate(MiB(6), Stream{1});
  Allocate(MiB(2), Stream{3});
  UseOn(last, Stream{1}, 1);
  Free(last);
  Free(between);
  Allocate(MiB(6), Stream{1});
  Free(Allocate(MiB(2), Stream{4}));
  for (int i = 0; i < 2; ++i) Allocate(MiB(2), Stream{1});
  Allocate(Bytes(1), Stream{3});
  Free(second);
  const uint64_t reserves = calls(CallKind::kReserve);
  Allocate(MiB(12), Stream{4});
  EXPECT_EQ(calls(CallKind::kReserve), reserves);
  EXPECT_EQ(device_.used(), MiB(48));
}

}  // namespace
}  // namespace frugal
