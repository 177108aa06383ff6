// A device without virtual memory gets the same policy on segments of cudaMalloc.

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

class Segments : public AllocatorTest {
 protected:
  Segments() : AllocatorTest(MiB(64), /*virtual_memory=*/false) {}
};

TEST_F(Segments, ServeBlocksWithoutAnyVirtualMemoryCall) {
  Allocate(Bytes(512));
  Allocate(MiB(3));
  Allocate(MiB(18));
  EXPECT_EQ(calls(CallKind::kMalloc), 3u);
  EXPECT_EQ(calls(CallKind::kCreate) + calls(CallKind::kReserve) + calls(CallKind::kMap), 0u);
  EXPECT_EQ(all(statistics().reserved_bytes), MiB(2 + 20 + 18).count());
  EXPECT_EQ(all(statistics().segment), 3);
}

TEST_F(Segments, AreSharedByBlocksBelow10MiB) {
  Allocate(MiB(3));
  Allocate(MiB(9));
  EXPECT_EQ(calls(CallKind::kMalloc), 1u);
}

TEST_F(Segments, ThatAreFreeGoBackBeforeARequestFails) {
  Free(Allocate(MiB(40)));
  Allocate(MiB(50));
  EXPECT_EQ(calls(CallKind::kFree), 1u);
}

TEST_F(Segments, InUseAreKeptWhenARequestFails) {
  const Address block = Allocate(MiB(40));
  EXPECT_TRUE(IsOutOfMemory(MiB(50)));
  Free(block);
}

TEST_F(Segments, AreGivenBackByTrim) {
  const Address block = Allocate(MiB(12));
  Free(Allocate(MiB(14)));
  absl::StatusOr<Bytes> returned = allocator_->Trim();
  ASSERT_TRUE(returned.ok());
  EXPECT_EQ(*returned, MiB(14));
  EXPECT_EQ(device_.used(), MiB(12));
  EXPECT_EQ(directory_.Find(block), allocator_.get());
  allocator_->inspect().CheckInvariants();
}

TEST_F(Segments, KeepStreamOrder) {
  const Address block = Allocate(MiB(12));
  UseOn(block, kSide, 100);
  Free(block);
  EXPECT_NE(Allocate(MiB(12)), block);
  AdvanceTo(100);
  EXPECT_EQ(Allocate(MiB(12)), block);
}

TEST_F(Segments, HaveNoMemoryThatCouldMove) {
  const Address first = Allocate(MiB(5));
  Allocate(MiB(3));
  Free(first);
  EXPECT_TRUE(IsOutOfMemory(MiB(50)));
  EXPECT_EQ(LastOutOfMemory().unusable, MiB(17)) << "all that is free beside blocks in use";
}

}  // namespace
}  // namespace frugal
