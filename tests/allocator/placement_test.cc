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
