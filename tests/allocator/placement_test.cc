// Where blocks go, and when the device is asked.

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using Placement = AllocatorTest;

TEST_F(Placement, BlocksAreRoundedTo512BytesAndKeepTheRequest) {
  absl::StatusOr<Allocation> allocation = allocator_->Allocate(Bytes(513), kMain);
  ASSERT_TRUE(allocation.ok());
  EXPECT_EQ(allocation->size, Bytes(1024));
  EXPECT_EQ(all(statistics().requested_bytes), 513);
  EXPECT_EQ(allocation->address.value() % 512, 0u);
}

TEST_F(Placement, AFreedBlockServesTheNextRequestOnItsStreamWithoutADeviceCall) {
  const Address first = Allocate(MiB(3));
  Free(first);
  device_.ResetCounters();
  EXPECT_EQ(Allocate(MiB(3)), first);
  EXPECT_EQ(driver_time(), 0);
}

TEST_F(Placement, TheSmallestFreeBlockThatFitsIsTaken) {
  const Address large = Allocate(MiB(6));
  Allocate(MiB(2));
  const Address small = Allocate(MiB(4));
  Allocate(MiB(2));
  Free(large);
  Free(small);
  EXPECT_EQ(Allocate(MiB(3)), small);
}

TEST_F(Placement, FreeNeighboursJoin) {
  const Address first = Allocate(MiB(2));
  const Address second = Allocate(MiB(2));
  const Address third = Allocate(MiB(2));
  Free(first);
  Free(third);
  Free(second);
  device_.ResetCounters();
  EXPECT_EQ(Allocate(MiB(6)), first);
  EXPECT_EQ(calls(CallKind::kMap), 0u);
}

TEST_F(Placement, SmallAndLargeBlocksDoNotShareAPage) {
  Allocate(Bytes(512));
  Allocate(MiB(1) + Bytes(1));
  const std::vector<SegmentView> segments = allocator_->inspect().Snapshot();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_NE(segments[0].small, segments[1].small);
}

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

TEST_F(Placement, ALoopOfTheSameShapesMakesNoDeviceCallAfterItsFirstTurn) {
  for (int turn = 0; turn < 4; ++turn) {
    if (turn == 1) device_.ResetCounters();
    std::vector<Address> blocks;
    for (int i = 1; i <= 8; ++i) blocks.push_back(Allocate(KiB(700) * i));
    for (Address block : blocks) Free(block);
  }
  EXPECT_EQ(driver_time(), 0);
}

TEST_F(Placement, EveryByteOfTheDeviceCanBeInUseAtOnce) {
  for (int i = 0; i < 16; ++i) Allocate(MiB(4));
  EXPECT_EQ(all(statistics().allocated_bytes), MiB(64).count());
  EXPECT_TRUE(IsOutOfMemory(Bytes(512)));
}

TEST_F(Placement, AnAddressInsideABlockFindsIt) {
  const Address block = Allocate(MiB(3));
  const std::optional<BlockView> found = allocator_->inspect().FindBlock(block + MiB(2));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->address, block);
  EXPECT_EQ(found->size, MiB(3));
  EXPECT_FALSE(allocator_->inspect().FindBlock(block + MiB(3)).has_value());
}

TEST_F(Placement, FreeOfAnAddressThatWasNotHandedOutIsRefused) {
  const Address block = Allocate(MiB(3));
  EXPECT_TRUE(absl::IsNotFound(allocator_->Free(block + Bytes(512)).status()));
  Free(block);
  EXPECT_TRUE(absl::IsNotFound(allocator_->Free(block).status())) << "freed twice";
}

TEST_F(Placement, AStreamOfAnAddressThatWasNotHandedOutIsRefused) {
  const Address block = Allocate(MiB(3));
  EXPECT_TRUE(absl::IsNotFound(allocator_->RecordStream(block + Bytes(512), kSide)));
  Free(block);
  EXPECT_TRUE(absl::IsNotFound(allocator_->RecordStream(block, kSide))) << "freed";
}

TEST_F(Placement, TheDirectoryKnowsWhoOwnsABlock) {
  const Address block = Allocate(MiB(3));
  EXPECT_EQ(directory_.Find(block), allocator_.get());
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

}  // namespace
}  // namespace frugal
