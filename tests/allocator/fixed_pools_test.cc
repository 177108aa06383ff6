// Pools that graphs read, in handles that stay where they are: what serves them, what goes back, and how they sleep.

#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

constexpr PoolId kPool{0, 1};
constexpr PoolId kOther{0, 2};
constexpr uint8_t kTag = 7;

class FixedPools : public AllocatorTest {
 protected:
  explicit FixedPools(Bytes memory = MiB(64)) : AllocatorTest(memory) { Keep(kPool); }

  void Keep(PoolId pool, uint8_t tag = kTag) {
    EXPECT_TRUE(allocator_->KeepPool(pool, /*captured=*/true, tag).ok());
    allocator_->inspect().CheckInvariants();
  }
  Address AllocateIn(PoolId pool, Bytes size) { return AllocateFrom({pool, MemoryKind::kFixed}, size); }
  void Release(PoolId pool) {
    EXPECT_TRUE(allocator_->ReleasePool(pool).ok());
    EXPECT_TRUE(allocator_->ReturnReleased().ok());
    allocator_->inspect().CheckInvariants();
  }
};

bool ThePool(Address address, uint8_t tag) { return address == Address() && tag == kTag; }

TEST_F(FixedPools, TakeWhatTheyAreAskedForAndNoMore) {
  AllocateIn(kPool, MiB(12));
  EXPECT_EQ(Held(), MiB(12)) << "PyTorch's own takes 20 MiB for one of 9, and 12 for this";
  AllocateIn(kPool, MiB(3));
  EXPECT_EQ(Held(), MiB(16));
}

TEST_F(FixedPools, WhatTheyHandedOutServesNobodyElse) {
  Free(AllocateIn(kPool, MiB(40)));
  EXPECT_TRUE(IsOutOfMemory(MiB(40)));
  EXPECT_EQ(LastOutOfMemory().kept, MiB(40));
  EXPECT_EQ(LastOutOfMemory().unusable, Bytes(0));
  EXPECT_EQ(Trim(), Bytes(0));
  Release(kPool);
  Allocate(MiB(40));
}

TEST_F(FixedPools, AGraphsFreeMemoryServesTheNextCapture) {
  const Address block = AllocateIn(kPool, MiB(40));
  Free(block);
  EXPECT_EQ(AllocateIn(kPool, MiB(24)), block);
  EXPECT_EQ(Held(), MiB(40));
}

TEST_F(FixedPools, TakeFreeMemoryOfOthersThatIsPassed) {
  Free(Allocate(MiB(60)));
  AdvanceTo(1000);
  AllocateIn(kPool, MiB(60));
  EXPECT_EQ(Held(), MiB(60));
}

// A replay may come on any stream, and is told to wait for none.
TEST_F(FixedPools, MemoryThatAStreamStillUsesIsTakenOnceTheHostHasWaited) {
  for (const Stream stream : {kMain, kSide}) {
    const Address used = Allocate(MiB(60), stream);
    MakeBusyUntil(stream, now() + 1'000'000);
    const int64_t until = now() + 1'000'000;
    Free(used);
    const Address pooled = AllocateIn(kPool, MiB(60));
    EXPECT_GE(now(), until);
    Free(pooled);
    Release(kPool);
    Keep(kPool);
  }
}

TEST_F(FixedPools, MemoryOfAReleasedPoolMovesAgain) {
  const Address pooled = AllocateIn(kPool, MiB(40));
  EXPECT_TRUE(allocator_->ReleasePool(kPool).ok());
  Free(pooled);
  EXPECT_TRUE(allocator_->ReturnReleased().ok());
  Allocate(MiB(60));
  EXPECT_LE(Held(), MiB(64));
}

TEST_F(FixedPools, ALaterPoolGetsTheRangesOfAnEarlierOne) {
  Free(AllocateIn(kPool, MiB(8)));
  Release(kPool);
  const uint64_t reserved = calls(CallKind::kReserve);
  Keep(kOther);
  AllocateIn(kOther, MiB(8));
  EXPECT_EQ(calls(CallKind::kReserve), reserved);
}

TEST_F(FixedPools, SleepAsAWholeWithWhatIsFree) {
  const Address first = AllocateIn(kPool, MiB(8));
  const Address second = AllocateIn(kPool, MiB(4));
  const Address ordinary = Allocate(MiB(6));
  Free(second);
  EXPECT_EQ(PutToSleep(ThePool), (Ranges{{first, MiB(8)}, {second, MiB(4)}}));
  EXPECT_EQ(device_.used(), MiB(6));
  const std::vector<Sleep::AsleepBlock> asleep = sleep().Asleep();
  ASSERT_EQ(asleep.size(), 2u);
  for (const Sleep::AsleepBlock& block : asleep) {
    EXPECT_EQ(block.pool, kPool);
    EXPECT_EQ(block.block.tag, kTag);
  }
  EXPECT_EQ(Wake(ThePool), (Ranges{{first, MiB(8)}, {second, MiB(4)}}));
  EXPECT_EQ(device_.used(), MiB(18));
  EXPECT_TRUE(sleep().Asleep().empty());
  EXPECT_EQ(AllocateIn(kPool, MiB(4)), second);
  EXPECT_EQ(Trim(), Bytes(0)) << "it stays for the graphs as before";
  Free(ordinary);
}

TEST_F(FixedPools, SleepByTheirOwnTagAlone) {
  const Address block = AllocateIn(kPool, MiB(8));
  EXPECT_TRUE(sleep().SetTag(block, 1).ok());
  EXPECT_TRUE(PutToSleep([](Address address, uint8_t tag) { return address != Address() || tag == 1; }).empty());
  EXPECT_EQ(device_.used(), MiB(8));
  const std::vector<Sleep::StayedPart> stayed = sleep().Stayed(ThePool);
  EXPECT_TRUE(stayed.empty()) << "all of it would sleep";
}

TEST_F(FixedPools, TheFirstTagStaysThePools) {
  const Address block = AllocateIn(kPool, MiB(8));
  PutToSleep(ThePool);
  Keep(kPool, kTag + 1);
  EXPECT_EQ(Wake(ThePool), (Ranges{{block, MiB(8)}}));
}

TEST_F(FixedPools, WhatIsGivenBackWhileItsPoolSleepsComesBackWithIt) {
  const Address block = AllocateIn(kPool, MiB(8));
  PutToSleep(ThePool);
  Free(block);
  sleep().EnterGivenBack();
  EXPECT_EQ(Wake(ThePool), (Ranges{{block, MiB(8)}}));
  EXPECT_EQ(AllocateIn(kPool, MiB(8)), block);
}

TEST_F(FixedPools, NewMemoryOfAPoolThatSleepsIsAwake) {
  const Address block = AllocateIn(kPool, MiB(8));
  PutToSleep(ThePool);
  const Address more = AllocateIn(kPool, MiB(4));
  EXPECT_NE(more, block);
  EXPECT_EQ(device_.used(), MiB(4));
  EXPECT_EQ(Wake(ThePool), (Ranges{{block, MiB(8)}}));
  EXPECT_EQ(PutToSleep(ThePool), (Ranges{{block, MiB(8)}, {more, MiB(4)}}));
  EXPECT_EQ(device_.used(), Bytes(0));
}

TEST_F(FixedPools, APoolThatIsReleasedWhileItSleepsTakesNothingBack) {
  Free(AllocateIn(kPool, MiB(8)));
  PutToSleep(ThePool);
  Release(kPool);
  EXPECT_TRUE(Wake(ThePool).empty());
  EXPECT_EQ(device_.used(), Bytes(0));
  Keep(kOther);
  const uint64_t reserved = calls(CallKind::kReserve);
  AllocateIn(kOther, MiB(8));
  EXPECT_EQ(calls(CallKind::kReserve), reserved) << "its addresses serve the next";
}

TEST_F(FixedPools, ATensorThatOutlivesASleepingPoolWakes) {
  const Address block = AllocateIn(kPool, MiB(8));
  PutToSleep(ThePool);
  Release(kPool);
  EXPECT_EQ(Wake(), (Ranges{{block, MiB(8)}}));
  Free(block);
  EXPECT_EQ(Trim(), MiB(8));
}

TEST_F(FixedPools, ASleepIsUndoneWithoutTheDriver) {
  const Address block = AllocateIn(kPool, MiB(8));
  Free(AllocateIn(kPool, MiB(4)));
  ASSERT_TRUE(sleep().FallAsleep(ThePool).ok());
  device_.ResetCounters();
  ASSERT_TRUE(sleep().WakeUp(ThePool).ok());
  allocator_->inspect().CheckInvariants();
  EXPECT_EQ(calls(CallKind::kMap) + calls(CallKind::kUnmap), 0u);
  EXPECT_TRUE(sleep().Asleep().empty());
  EXPECT_EQ(AllocateIn(kPool, MiB(4)), block + MiB(8));
}

TEST_F(FixedPools, WhatSomebodyKeepsInPlaceStaysAwake) {
  const Address block = AllocateIn(kPool, MiB(8));
  const Address other = AllocateIn(kPool, MiB(16));
  ASSERT_TRUE(allocator_->KeepInPlace(block, MiB(8), true).ok());
  EXPECT_EQ(PutToSleep(ThePool), (Ranges{{other, MiB(16)}}));
  const std::vector<Sleep::StayedPart> stayed = sleep().Stayed(ThePool);
  ASSERT_EQ(stayed.size(), 1u);
  EXPECT_EQ(stayed[0].why, Sleep::Why::kKeptInPlace);
  EXPECT_EQ(stayed[0].size, MiB(8));
  Wake(ThePool);
  ASSERT_TRUE(allocator_->KeepInPlace(block, MiB(8), false).ok());
}

}  // namespace
}  // namespace frugal
