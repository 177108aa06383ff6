// Memory that others use by its address: it stays where it is.

#include <vector>

#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

class InPlace : public AllocatorTest {
 protected:
  InPlace() : AllocatorTest(MiB(64)) {}

  uint64_t moves() const { return calls(CallKind::kMap) - calls(CallKind::kCreate); }
};

TEST_F(InPlace, FreeMemoryThatIsKeptServesNoStitch) {
  std::vector<Address> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Allocate(MiB(8)));
  ASSERT_TRUE(allocator_->KeepInPlace(blocks[0], MiB(8), true).ok());
  for (int i : {0, 2, 4}) Free(blocks[static_cast<size_t>(i)]);
  Allocate(MiB(16));
  EXPECT_EQ(moves(), 8u);
  EXPECT_TRUE(IsOutOfMemory(MiB(16))) << "what is left free is kept";
  EXPECT_EQ(Allocate(MiB(8)), blocks[0]) << "it serves where it is";
}

TEST_F(InPlace, FreeMemoryThatIsKeptIsNotGivenBack) {
  const Address block = Allocate(MiB(8));
  ASSERT_TRUE(allocator_->KeepInPlace(block + MiB(2), MiB(2), true).ok());
  Free(block);
  EXPECT_EQ(Trim(), MiB(6));
  EXPECT_EQ(Held(), MiB(2));
  allocator_->inspect().CheckInvariants();
}

TEST_F(InPlace, WhatWasLetGoMovesAgain) {
  const Address block = Allocate(MiB(8));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(allocator_->KeepInPlace(block, MiB(8), true).ok());
  Free(block);
  ASSERT_TRUE(allocator_->KeepInPlace(block, MiB(8), false).ok());
  EXPECT_EQ(Trim(), Bytes(0)) << "kept twice, let go once";
  ASSERT_TRUE(allocator_->KeepInPlace(block, MiB(8), false).ok());
  EXPECT_EQ(Trim(), MiB(8));
}

TEST_F(InPlace, AGuestThatIsKeptStaysWhereItIs) {
  // Lent: memory does not grow any more.
  std::vector<Address> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Allocate(MiB(8)));
  for (int i : {1, 3}) Free(blocks[static_cast<size_t>(i)]);
  const Address stitched = Allocate(MiB(16));
  ASSERT_TRUE(allocator_->KeepInPlace(stitched, MiB(16), true).ok());
  Free(stitched);
  allocator_->inspect().CheckInvariants();
  EXPECT_EQ(Allocate(MiB(16)), stitched);
}

TEST_F(InPlace, ARangeThatIsNotOursIsRefusedWhole) {
  const Address block = Allocate(MiB(8));
  EXPECT_TRUE(absl::IsNotFound(allocator_->KeepInPlace(block, MiB(16), true)));
  EXPECT_TRUE(absl::IsNotFound(allocator_->KeepInPlace(Address(0x1000), MiB(2), true)));
  EXPECT_TRUE(absl::IsNotFound(allocator_->KeepInPlace(block, Bytes(0), true)));
  EXPECT_TRUE(absl::IsFailedPrecondition(allocator_->KeepInPlace(block, MiB(8), false)));
  Free(block);
  EXPECT_EQ(Trim(), MiB(8));
}

TEST_F(InPlace, WhatIsNotHandedOutIsRefusedAndStaysAsFreeAsItWas) {
  const Address block = Allocate(MiB(8));
  const Address other = Allocate(MiB(8));
  ASSERT_EQ(other, block + MiB(8));
  Free(block);
  EXPECT_TRUE(absl::IsNotFound(allocator_->KeepInPlace(block, MiB(8), true))) << "free";
  EXPECT_TRUE(absl::IsNotFound(allocator_->KeepInPlace(block + MiB(6), MiB(4), true))) << "free in part";
  UseOn(other, kSide, 100);
  Free(other);
  EXPECT_TRUE(absl::IsNotFound(allocator_->KeepInPlace(other, MiB(8), true))) << "given back, though a stream uses it";
  AdvanceTo(100);
  EXPECT_EQ(Trim(), MiB(16));
}

TEST_F(InPlace, FreeBytesBesideABlockInItsPageAreRefused) {
  const Address first = Allocate(KiB(512));
  const Address second = Allocate(KiB(512));
  ASSERT_EQ(second, first + KiB(512));
  ASSERT_TRUE(allocator_->KeepInPlace(first, MiB(1), true).ok()) << "of two blocks";
  Free(second);
  EXPECT_TRUE(absl::IsNotFound(allocator_->KeepInPlace(first, MiB(1), true)));
  EXPECT_TRUE(allocator_->KeepInPlace(first, MiB(1), false).ok()) << "as it was kept";
}

TEST_F(InPlace, WithRemappingOffNothingMovesAndMemoryGoesBackBeforeItIsOut) {
  allocator_->settings().SetRemapping(false);
  std::vector<Address> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Allocate(MiB(8)));
  for (int i : {1, 3, 5}) Free(blocks[static_cast<size_t>(i)]);
  Allocate(MiB(16));
  EXPECT_EQ(moves(), 0u);
  EXPECT_EQ(statistics().num_stitches, 0);
  EXPECT_LE(Held(), MiB(64));
  EXPECT_TRUE(IsOutOfMemory(MiB(16)));
}

// A block of one page inside a handle of eight pages.
class InPlaceInsideALargeHandle : public SizedHandlesTest {
 protected:
  InPlaceInsideALargeHandle() : SizedHandlesTest(32) {
    before_ = AllocatePages(3);
    EXPECT_EQ(between_.TakeCreated(), (std::vector<int64_t>{2, 1}));
    Free(before_);
    EXPECT_EQ(Trim(), kPageSize * 3);
    Free(AllocatePages(8));
    before_ = AllocatePages(3);
    kept_ = AllocatePages(1);
    EXPECT_EQ(kept_, before_ + kPageSize * 3);
    EXPECT_EQ(between_.TakeCreated(), (std::vector<int64_t>{8}));
    EXPECT_TRUE(allocator_->KeepInPlace(kept_, kPageSize, true).ok());
  }

  Address before_;
  Address kept_;
};

TEST_F(InPlaceInsideALargeHandle, KeepsTheWholeHandle) {
  Free(before_);
  Free(kept_);
  EXPECT_EQ(Trim(), Bytes(0));
  ASSERT_TRUE(allocator_->KeepInPlace(kept_, kPageSize, false).ok());
  EXPECT_EQ(Trim(), kPageSize * 8);
}

TEST_F(InPlaceInsideALargeHandle, HoldsItUntilAllThatWereKeptInItAreLetGo) {
  ASSERT_TRUE(allocator_->KeepInPlace(before_, kPageSize * 3, true).ok());
  allocator_->inspect().CheckInvariants();
  Free(before_);
  Free(kept_);
  ASSERT_TRUE(allocator_->KeepInPlace(kept_, kPageSize, false).ok());
  EXPECT_EQ(Trim(), Bytes(0));
  ASSERT_TRUE(allocator_->KeepInPlace(before_, kPageSize * 3, false).ok());
  EXPECT_EQ(Trim(), kPageSize * 8);
}

class Reserve : public AllocatorTest {
 protected:
  Reserve() : AllocatorTest(MiB(64)) { allocator_->settings().SetDriverReserve(MiB(8)); }
};

TEST_F(Reserve, IsLeftToTheDriverWhileAnotherStreamsMemoryServes) {
  Free(Allocate(MiB(20), kSide));
  MakeBusyUntil(kSide, 100);
  Allocate(MiB(36));
  EXPECT_EQ(device_.used(), MiB(56));
  Allocate(MiB(16));
  EXPECT_EQ(device_.used(), MiB(56)) << "behind a wait for the other stream";
  EXPECT_EQ(statistics().num_stream_waits, 1);
}

TEST_F(Reserve, IsTakenBeforeMemoryIsOut) {
  Allocate(MiB(64));
  EXPECT_EQ(device_.used(), MiB(64));
  EXPECT_EQ(statistics().num_alloc_retries, 0) << "and before anybody is asked to give memory back";
}

class ShortAddresses : public AllocatorTest {};

TEST_F(ShortAddresses, ARangeThatIsRefusedIsAskedForInHalves) {
  ASSERT_TRUE(device_.SetFaults("reserve@1=out_of_memory,reserve@2=out_of_memory,reserve@3=out_of_memory"));
  Free(Allocate(MiB(10)));
  Free(Allocate(MiB(30)));
  EXPECT_EQ(device_.faults(), 3u);
  EXPECT_GT(statistics().num_driver_failures, 0) << "it is on record";
}

class FullTables : public AllocatorTest {};

// The driver's tables of mappings are full, though memory is not.
TEST_F(FullTables, ARequestFailsCleanlyAndOthersGoOn) {
  const Address block = Allocate(MiB(8));
  ASSERT_TRUE(device_.SetFaults("map@1+=out_of_memory"));
  const absl::Status refused = allocator_->Allocate(MiB(16), kMain).status();
  EXPECT_FALSE(absl::IsResourceExhausted(refused)) << "memory is not out: " << refused;
  EXPECT_FALSE(refused.ok());
  allocator_->inspect().CheckInvariants();
  Free(block);
  EXPECT_EQ(Allocate(MiB(8)), block);
  ASSERT_TRUE(device_.SetFaults(""));
  Allocate(MiB(16));
}

TEST_F(FullTables, ViewsThatNobodyUsesMakeRoom) {
  LeaveOldViews(10);
  const uint64_t unmaps = calls(CallKind::kUnmap);
  ASSERT_TRUE(device_.SetFaults("map@1=out_of_memory"));
  Free(Allocate(MiB(62)));
  EXPECT_GT(calls(CallKind::kUnmap), unmaps);
  EXPECT_EQ(statistics().num_ooms, 0);
}

}  // namespace
}  // namespace frugal
