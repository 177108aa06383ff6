#include "allocator/remap_allowance.h"

#include <random>
#include <utility>
#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

TEST(RemapAllowance, IsThereFromTheStart) {
  RemapAllowance allowance;
  EXPECT_FALSE(allowance.IsSpent());
}

TEST(RemapAllowance, IsSpentByRemappingAndEarnedByAllocations) {
  RemapAllowance allowance;
  allowance.Spend(1'000'000'000);
  EXPECT_TRUE(allowance.IsSpent());
  allowance.Earn(1'000'000);
  EXPECT_FALSE(allowance.IsSpent());
}

TEST(RemapAllowance, DoesNotPileUp) {
  RemapAllowance allowance;
  allowance.Earn(1'000'000'000);
  allowance.Spend(1'000'000'000);
  EXPECT_TRUE(allowance.IsSpent());
}

TEST(RemapAllowance, GoesOnEarningAfterTheCountWasReset) {
  RemapAllowance allowance;
  allowance.Earn(1'000'000);
  allowance.Spend(240'024'000);
  EXPECT_TRUE(allowance.IsSpent());
  allowance.Earn(1);
  EXPECT_FALSE(allowance.IsSpent());
}

// Caches of random sizes that come and go: hardly any request finds a hole that fits.
class Misfits : public AllocatorTest {
 protected:
  Misfits() : AllocatorTest(GiB(4)) {}

  // Keeps about `live` in use for so many requests.
  void Play(Bytes live, int requests) {
    for (int i = 0; i < requests; ++i) {
      const Bytes size = MiB(2 + static_cast<int64_t>(random_() % 24)) + Bytes(512);
      while (!caches_.empty() && in_use_ + size > live) {
        const size_t which = random_() % caches_.size();
        EXPECT_TRUE(allocator_->Free(caches_[which].first).ok());
        in_use_ -= caches_[which].second;
        caches_[which] = caches_.back();
        caches_.pop_back();
      }
      absl::StatusOr<Allocation> cache = allocator_->Allocate(size, kMain);
      ASSERT_TRUE(cache.ok()) << cache.status();
      caches_.push_back({cache->address, size});
      in_use_ += size;
    }
    allocator_->CheckInvariants();
  }
  Bytes held() const { return Bytes(statistics().reserved_bytes[SizeGroup::kAll].current); }

  std::mt19937_64 random_{1};
  std::vector<std::pair<Address, Bytes>> caches_;
  Bytes in_use_;
};

TEST_F(Misfits, MayHoldAnEighthMoreThanTheyEverUsed) {
  Play(MiB(512), 6'000);
  EXPECT_GT(held(), MiB(520)) << "nothing was grown: the test proves nothing";
  EXPECT_LE(held(), MiB(512 + 64));
  // On record, as in decisions_test.cc.
  EXPECT_EQ(held(), MiB(574));
  EXPECT_EQ(calls(CallKind::kMap), 14491u);
}

TEST_F(Misfits, AreRemappedInsteadWhereMemoryIsShort) {
  allocator_->SetLimit(MiB(566), nullptr, nullptr);
  Play(MiB(512), 6'000);
  EXPECT_LE(held(), MiB(566));
  EXPECT_EQ(held(), MiB(566));
  EXPECT_EQ(calls(CallKind::kMap), 14755u);
}

// A program beyond its allowance that now starts afresh.
class BeyondAllowance : public Misfits {
 protected:
  void SetUp() override {
    allocator_->SetLimit(MiB(566), nullptr, nullptr);
    Play(MiB(512), 3'000);
    for (const auto& [cache, size] : caches_) Free(cache);
    ASSERT_EQ(allocator_->Trim().value_or(Bytes(0)), held_before_);
    ASSERT_EQ(held(), Bytes(0));
    allocator_->SetLimit(kUnlimited, nullptr, nullptr);
    allocator_->ResetPeakStatistics();
    device_.ResetCounters();
  }
  const Bytes held_before_ = MiB(566);
};

// 32 pages at their highest, so that 36 may be held.
TEST_F(BeyondAllowance, GrowsToTheVeryEighth) {
  std::vector<Address> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(Allocate(MiB(6)));
  Allocate(MiB(4));
  for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
  Allocate(MiB(8));
  EXPECT_EQ(held(), MiB(72)) << "four pages more";
  Allocate(MiB(8));
  EXPECT_EQ(held(), MiB(72)) << "the next is stitched";
}

// 30 pages and the 8 that are wanted now count, not the 32 of before: so that 42 may be held.
TEST_F(BeyondAllowance, CountsWhatIsWantedNowAmongWhatWasEverInUse) {
  std::vector<Address> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(Allocate(MiB(2)));
  for (int i : {10, 20}) Free(blocks[static_cast<size_t>(i)]);
  Allocate(MiB(16));
  EXPECT_EQ(held(), MiB(80));
}

}  // namespace
}  // namespace frugal
