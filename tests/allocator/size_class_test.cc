// A size class is a preference: where memory is out, no free block of the stream and pool holds the request.

#include "allocator/blocks/size_class.h"

#include <array>
#include <cstddef>
#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

constexpr std::array kSizes = {KiB(64),   KiB(200), KiB(256),  KiB(300),   KiB(400),  KiB(512),  KiB(600), KiB(768),
                               KiB(900),  MiB(1),   KiB(1100), KiB(1500),  KiB(1600), KiB(2000), MiB(2),   MiB(3),
                               KiB(5000), MiB(8),   MiB(10),   KiB(13000), MiB(16),   MiB(20),   MiB(32)};

TEST(ClassOfTest, ChangesAboveEachOfItsBorders) {
  size_t next = 0;
  for (const Bytes border : {KiB(256), KiB(384), KiB(512), KiB(768), MiB(1), KiB(1536)}) {
    EXPECT_EQ(ClassOf(border), kSizeClasses[next]) << border.count();
    EXPECT_EQ(ClassOf(border + kGrain), kSizeClasses[++next]) << border.count();
  }
}

TEST(ClassOfTest, CountsAsSmallWhatPyTorchDoes) {
  EXPECT_EQ(GroupOf(ClassOf(MiB(1))), SizeGroup::kSmall);
  EXPECT_EQ(GroupOf(ClassOf(MiB(1) + kGrain)), SizeGroup::kLarge);
}

// Whether the GPU maps memory.
class SizeClasses : public testing::WithParamInterface<bool>, public AllocatorTest {
 protected:
  SizeClasses() : AllocatorTest(MiB(128), GetParam()) {}

  // As many as there is room for.
  std::vector<Address> Fill(Bytes size, Stream stream = kMain, PoolId pool = PoolId()) {
    std::vector<Address> blocks;
    for (;;) {
      const absl::StatusOr<Allocation> made = allocator_->AllocateFrom({pool}, size, stream);
      if (!made.ok()) return blocks;
      blocks.push_back(made->address);
    }
  }
  // Every second of them; how many these are.
  size_t FreeEverySecond(const std::vector<Address>& blocks) {
    for (size_t i = 0; i < blocks.size(); i += 2) EXPECT_TRUE(allocator_->Free(blocks[i]).ok());
    return (blocks.size() + 1) / 2;
  }
};

INSTANTIATE_TEST_SUITE_P(, SizeClasses, testing::Bool());

TEST_P(SizeClasses, EachFreedBlockServesARequestThatIsNoLarger) {
  for (const Bytes freed : kSizes) {
    for (const Bytes wanted : kSizes) {
      if (wanted > freed) continue;
      const std::vector<Address> first = Fill(freed);
      const size_t holes = FreeEverySecond(first);
      const std::vector<Address> second = Fill(wanted);
      EXPECT_GE(second.size(), holes) << freed.count() << " freed, " << wanted.count() << " wanted";
      allocator_->inspect().CheckInvariants();
      for (size_t i = 1; i < first.size(); i += 2) ASSERT_TRUE(allocator_->Free(first[i]).ok());
      for (const Address block : second) ASSERT_TRUE(allocator_->Free(block).ok());
      Trim();
    }
  }
}

TEST_P(SizeClasses, BorrowedBlocksCountByTheirSize) {
  FreeEverySecond(Fill(KiB(1500)));
  const int64_t large = statistics().allocated_bytes[SizeGroup::kLarge].current;
  const std::vector<Address> borrowed = Fill(KiB(400));
  EXPECT_EQ(statistics().allocated_bytes[SizeGroup::kLarge].current, large);
  for (const Address block : borrowed) Free(block);
  EXPECT_EQ(statistics().allocated_bytes[SizeGroup::kLarge].current, large);
  EXPECT_EQ(statistics().allocated_bytes[SizeGroup::kSmall].current, 0);
}

TEST_P(SizeClasses, NoBlockOfAnotherStreamOrPoolServes) {
  const PoolId pool{1, 0};
  FreeEverySecond(Fill(KiB(600), kSide, pool));
  EXPECT_TRUE(Fill(KiB(400), kMain, pool).empty()) << "another stream's";
  EXPECT_TRUE(Fill(KiB(400), kSide).empty()) << "another pool's";
  EXPECT_FALSE(Fill(KiB(400), kSide, pool).empty());
}

TEST_P(SizeClasses, ReportSaysInPiecesOnlyWhereEachPieceIsTooSmall) {
  FreeEverySecond(Fill(KiB(600)));
  Fill(KiB(700));
  EXPECT_LT(LastOutOfMemory().largest_free, KiB(700));
  EXPECT_GT(LastOutOfMemory().unusable, MiB(8));
}

// A pool that is asked for what it has free alone looks at every class, too.
TEST_P(SizeClasses, OnlyFreeLooksBeyondItsClass) {
  const PoolId pool{1, 0};
  const absl::StatusOr<Allocation> freed = allocator_->AllocateFrom({pool}, KiB(600), kMain);
  ASSERT_TRUE(freed.ok());
  Free(freed->address);
  EXPECT_TRUE(allocator_->AllocateFrom({pool}, KiB(400), kMain, nullptr, Bytes(0), {}, /*only_free=*/true).ok());
}

}  // namespace
}  // namespace frugal
