// Memory of private pools: ordinary memory whose free blocks serve one pool.

#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

constexpr PoolId kPool{0, 1};
constexpr PoolId kOther{0, 2};

class Pools : public AllocatorTest {
 protected:
  explicit Pools(Bytes memory = MiB(64)) : AllocatorTest(memory) {}

  Address AllocateIn(PoolId pool, Bytes size, Stream stream = kMain) {
    const absl::StatusOr<Allocation> made = allocator_->AllocateFrom({pool}, size, stream);
    EXPECT_TRUE(made.ok()) << made.status();
    allocator_->inspect().CheckInvariants();
    return made.ok() ? made->address : Address();
  }
  void Keep(PoolId pool) {
    EXPECT_TRUE(allocator_->KeepPool(pool).ok());
    allocator_->inspect().CheckInvariants();
  }
  void Release(PoolId pool) {
    EXPECT_TRUE(allocator_->ReleasePool(pool).ok());
    allocator_->inspect().CheckInvariants();
  }
  Bytes Held() const { return allocator_->inspect().Held(); }
};

// So much is left that free handles stay where they are.
class PoolsWithRoom : public Pools {
 protected:
  PoolsWithRoom() : Pools(GiB(4)) {}
};

TEST_F(PoolsWithRoom, FreeBlocksServeTheirPoolAlone) {
  const Address pooled = AllocateIn(kPool, MiB(8));
  Free(pooled);
  const Address ordinary = Allocate(MiB(8));
  const Address of_other = AllocateIn(kOther, MiB(8));
  EXPECT_NE(ordinary, pooled);
  EXPECT_NE(of_other, pooled);
  EXPECT_EQ(AllocateIn(kPool, MiB(8)), pooled);
}

TEST_F(Pools, FreeHandlesServeOthersBeforeMemoryIsOut) {
  Free(AllocateIn(kPool, MiB(60)));
  Free(Allocate(MiB(60)));
  Free(AllocateIn(kOther, MiB(60)));
  EXPECT_LE(Held(), MiB(64));
}

TEST_F(Pools, WhatAPoolFreesIsJoined) {
  std::vector<Address> layers;
  for (int i = 0; i < 7; ++i) layers.push_back(AllocateIn(kPool, MiB(8)));
  for (size_t i = 0; i < layers.size(); i += 2) Free(layers[i]);
  AllocateIn(kPool, MiB(32));
  EXPECT_LE(Held(), MiB(64));
}

// vllm-project/vllm#49151: each layer is replaced by a slightly larger one while the pool lives.
TEST_F(Pools, LayersThatAreReplacedByLargerOnesTakeLittleMoreThanTheyHave) {
  std::vector<Address> layers;
  for (int i = 0; i < 12; ++i) layers.push_back(AllocateIn(kPool, MiB(4)));
  for (Address& layer : layers) {
    const Address larger = AllocateIn(kPool, MiB(4) + KiB(256));
    Free(layer);
    layer = larger;
  }
  EXPECT_LE(Held(), MiB(60)) << "12 layers of 4.25 MiB and one of 4 beside them";
}

TEST_F(PoolsWithRoom, RangesOfReleasedPoolsServeLaterOnes) {
  for (uint64_t number = 1; number <= 3; ++number) {
    Free(AllocateIn({0, number}, MiB(8)));
    Release({0, number});
  }
  const uint64_t reserved = calls(CallKind::kReserve);
  const uint64_t created = calls(CallKind::kCreate);
  for (uint64_t number = 4; number <= 100; ++number) {
    Free(AllocateIn({0, number}, MiB(8)));
    Release({0, number});
  }
  EXPECT_EQ(calls(CallKind::kReserve), reserved);
  EXPECT_EQ(calls(CallKind::kCreate), created) << "with the memory that is mapped there";
}

TEST_F(PoolsWithRoom, WhatOutlivesItsPoolIsInNoLaterOne) {
  const Address outlives = AllocateIn(kPool, MiB(8));
  Release(kPool);
  const Address later = AllocateIn(kOther, MiB(8));
  for (const SegmentView& segment : allocator_->inspect().Snapshot(kOther)) {
    EXPECT_EQ(segment.address, later);
    EXPECT_EQ(segment.size, MiB(8));
  }
  Free(outlives);
  EXPECT_EQ(Trim(), MiB(8));
}

TEST_F(PoolsWithRoom, OnePoolCanGiveBackWhatItHasFree) {
  const Address held = AllocateIn(kPool, MiB(8));
  Free(AllocateIn(kPool, MiB(16)));
  Free(AllocateIn(kOther, MiB(4)));
  Free(Allocate(MiB(2)));
  EXPECT_EQ(Returned(allocator_->Trim(kUnlimited, kPool)), MiB(16));
  EXPECT_EQ(Returned(allocator_->Trim(kUnlimited, PoolId())), MiB(2));
  EXPECT_EQ(Returned(allocator_->Trim(kUnlimited, PoolId{0, 3})), Bytes(0));
  EXPECT_EQ(Trim(), MiB(4));
  Free(held);
}

TEST_F(Pools, IdleMemoryOfAPoolGoesBack) {
  Free(AllocateIn(kPool, MiB(8)));
  MarkUse();
  EXPECT_EQ(ReturnIdle(), MiB(8));
}

TEST_F(Pools, OnlyFreeBlocksServeWhereNothingElseIsToBeAsked) {
  const auto ask = [&](Bytes size) {
    return allocator_->AllocateFrom({kPool}, size, kMain, nullptr, Bytes(0), {}, /*only_free=*/true).status();
  };
  EXPECT_TRUE(absl::IsResourceExhausted(ask(KiB(4))));
  const Address held = AllocateIn(kPool, KiB(4));
  EXPECT_TRUE(ask(KiB(4)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(ask(MiB(4))));
  EXPECT_EQ(statistics().num_ooms, 0);
  Free(held);
}

TEST_F(PoolsWithRoom, ObserversAndSnapshotsAreToldThePool) {
  RecordingObserver observer;
  allocator_->settings().SetObserver(&observer);
  Free(AllocateIn(kPool, MiB(8)));
  Free(Allocate(MiB(8)));
  for (size_t i = 0; i < observer.events.size(); ++i) {
    EXPECT_EQ(observer.events[i].pool, i < observer.events.size() / 2 ? kPool : PoolId());
  }
  ASSERT_EQ(allocator_->inspect().Snapshot(kPool).size(), 1u);
  EXPECT_EQ(allocator_->inspect().Snapshot(kPool).front().pool, kPool);
  EXPECT_EQ(allocator_->inspect().Snapshot().size(), 2u);
  allocator_->settings().SetObserver(nullptr);
}

// --- A graph may have been captured into the pool.

TEST_F(Pools, WhatAGraphMayReadStaysWhereItIsWhenItIsFree) {
  const Address input = AllocateIn(kPool, MiB(8));
  const Address before = AllocateIn(kPool, MiB(8));
  Free(before);
  Keep(kPool);
  Free(input);
  EXPECT_EQ(Trim(), MiB(8)) << "what was free when the capture began";
  MarkUse();
  EXPECT_EQ(ReturnIdle(), Bytes(0));
  EXPECT_TRUE(IsOutOfMemory(MiB(60)));
  EXPECT_EQ(Trim(), Bytes(0)) << "held by the graph";
  Release(kPool);
  EXPECT_EQ(Trim(), MiB(8));
}

TEST_F(Pools, WhatAGraphReadsIsReusedOnlyAfterItsReplays) {
  const Address input = AllocateIn(kPool, MiB(40));
  Keep(kPool);
  Free(input);
  // A replay on another stream, of which nobody tells the allocator.
  Free(Allocate(kGrain, kSide));
  MakeBusyUntil(kSide, 1'000'000'000);
  Release(kPool);
  Allocate(MiB(40));
  EXPECT_GE(now(), 1'000'000'000);
}

TEST_F(Pools, MemoryThatSeveralBlocksShareIsLetGoOfAtOnce) {
  const Address first = AllocateIn(kPool, KiB(64));
  const Address second = AllocateIn(kPool, KiB(64));
  Keep(kPool);
  Free(first);
  Release(kPool);
  EXPECT_EQ(Trim(), Bytes(0));
  Free(second);
  EXPECT_EQ(Trim(), MiB(2));
}

}  // namespace
}  // namespace frugal
