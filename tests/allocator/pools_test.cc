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

  Address AllocateIn(PoolId pool, Bytes size) { return AllocateFrom({pool}, size); }
  Address AllocateSegmentIn(PoolId pool, Bytes size) { return AllocateFrom({pool, MemoryKind::kSegment}, size); }
  void Keep(PoolId pool, bool captured = true) {
    EXPECT_TRUE(allocator_->KeepPool(pool, captured).ok());
    allocator_->inspect().CheckInvariants();
  }
  void Release(PoolId pool) {
    EXPECT_TRUE(allocator_->ReleasePool(pool).ok());
    allocator_->inspect().CheckInvariants();
  }
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

TEST_F(Pools, SegmentsOfAPoolThatIsHeldServeItAlone) {
  Keep(kPool);
  const Address pooled = AllocateSegmentIn(kPool, MiB(40));
  Free(pooled);
  EXPECT_EQ(Trim(), Bytes(0));
  MarkUse();
  EXPECT_EQ(ReturnIdle(), Bytes(0));
  EXPECT_TRUE(IsOutOfMemory(MiB(30)));
  EXPECT_EQ(AllocateSegmentIn(kPool, MiB(40)), pooled);
  EXPECT_EQ(calls(CallKind::kFree), 0u);
}

TEST_F(Pools, SegmentsOfAReleasedPoolServeOthersAfterTheHostHasWaited) {
  Keep(kPool);
  Free(AllocateSegmentIn(kPool, MiB(40)));
  // A replay on another stream, of which nobody tells the allocator.
  Free(Allocate(kGrain, kSide));
  MakeBusyUntil(kSide, 1'000'000'000);
  Release(kPool);
  Allocate(MiB(40));
  EXPECT_GE(now(), 1'000'000'000);
}

TEST_F(Pools, AReleasedPoolIsGivenBackWithoutBeingAskedForOnceNoGraphCanReadIt) {
  Keep(kPool);
  Free(AllocateSegmentIn(kPool, MiB(4)));
  Keep(kOther);
  Free(AllocateSegmentIn(kOther, MiB(4)));
  Release(kPool);
  EXPECT_FALSE(allocator_->HasReleasedPools()) << "the graph that was captured later may read it";
  EXPECT_EQ(Returned(allocator_->ReturnReleased()), Bytes(0));
  Release(kOther);
  EXPECT_TRUE(allocator_->HasReleasedPools());
  EXPECT_EQ(Returned(allocator_->ReturnReleased()), MiB(40)) << "two segments of 20 MiB";
  EXPECT_FALSE(allocator_->HasReleasedPools());
}

TEST_F(Pools, APoolThatNoGraphWasCapturedIntoReadsNoOther) {
  Keep(kPool);
  Free(AllocateSegmentIn(kPool, MiB(4)));
  Keep(kOther, /*captured=*/false);
  Release(kPool);
  EXPECT_EQ(Returned(allocator_->ReturnReleased()), MiB(20));
}

TEST_F(Pools, AnEmptyCacheTakesWhatOtherGraphsMightRead) {
  Keep(kPool);
  Free(AllocateSegmentIn(kPool, MiB(4)));
  Keep(kOther);
  Release(kPool);
  EXPECT_EQ(Trim(), MiB(20)) << "as PyTorch's own allocator does";
}

TEST_F(Pools, ABlockIsMadeAtAnAddressOnlyWhereThePoolHasFreeMemory) {
  Keep(kPool);
  const Address first = AllocateSegmentIn(kPool, MiB(2));
  const Address second = AllocateSegmentIn(kPool, MiB(3));
  Free(second);
  EXPECT_TRUE(absl::IsNotFound(allocator_->AllocateAt(kPool, std::nullopt, first, MiB(2)).status())) << "in use";
  EXPECT_TRUE(absl::IsNotFound(allocator_->AllocateAt(kOther, std::nullopt, second, MiB(3)).status()))
      << "another pool's";
  EXPECT_TRUE(absl::IsNotFound(allocator_->AllocateAt(kPool, std::nullopt, second, MiB(30)).status()))
      << "it is not so long";
  EXPECT_TRUE(absl::IsNotFound(allocator_->AllocateAt(kPool, kSide, second, MiB(3)).status())) << "another stream's";
  const absl::StatusOr<Allocation> again = allocator_->AllocateAt(kPool, kMain, second + MiB(2), MiB(3) - Bytes(1));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->address, second + MiB(2));
  EXPECT_EQ(again->size, MiB(3));
  allocator_->inspect().CheckInvariants();
  EXPECT_EQ(AllocateSegmentIn(kPool, MiB(2)), second) << "what is left before it stays free";
  Free(again->address);
  Free(first);
}

TEST_F(Pools, BlocksThatAreNotToBeSplitAreHandedOutWhole) {
  allocator_->SetPoolTraits(kPool, {.splits = false, .source = nullptr});
  Keep(kPool, /*captured=*/false);
  const absl::StatusOr<Allocation> whole = allocator_->AllocateFrom({kPool, MemoryKind::kSegment}, MiB(3), kMain);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->size, MiB(20));
  EXPECT_NE(AllocateSegmentIn(kPool, MiB(3)), whole->address + MiB(3));
  EXPECT_EQ(Returned(allocator_->Free(whole->address)), MiB(20));
}

// Of addresses that no device knows.
class CountingSource : public SegmentSource {
 public:
  absl::StatusOr<Address> Malloc(Bytes size) override {
    if (size > most) return absl::ResourceExhaustedError("no more");
    ++segments;
    return next = next + GiB(1);
  }
  absl::Status Free(Address /*segment*/) override {
    --segments;
    return absl::OkStatus();
  }

  Bytes most = kUnlimited;
  int segments = 0;
  Address next{uint64_t{1} << 50};
};

TEST_F(Pools, SegmentsComeFromThePoolsOwnSourceAndGoBackThere) {
  const auto source = std::make_shared<CountingSource>();
  allocator_->SetPoolTraits(kPool, {.splits = true, .source = source});
  Keep(kPool, /*captured=*/false);
  const Address first = AllocateSegmentIn(kPool, MiB(30));
  const Address larger_than_the_device = AllocateSegmentIn(kPool, MiB(100));
  EXPECT_EQ(source->segments, 2);
  EXPECT_EQ(calls(CallKind::kMalloc), 0u);
  Free(first);
  Free(larger_than_the_device);
  EXPECT_EQ(Trim(), Bytes(0));
  Release(kPool);
  EXPECT_EQ(Returned(allocator_->Trim(kUnlimited, kPool)), MiB(130));
  EXPECT_EQ(source->segments, 0);
}

TEST_F(Pools, ASourceWithoutMemoryIsOutOfMemory) {
  const auto source = std::make_shared<CountingSource>();
  source->most = MiB(10);
  allocator_->SetPoolTraits(kPool, {.splits = true, .source = source});
  const auto status = allocator_->AllocateFrom({kPool, MemoryKind::kSegment}, MiB(12), kMain).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  Free(AllocateSegmentIn(kPool, MiB(4)));
}

}  // namespace
}  // namespace frugal
