// On a nearly full device large handles are given up for small ones, which fit into any hole.

#include <vector>

#include "tests/allocator/sized_handles.h"

namespace frugal {
namespace {

// A device without a page to spare. Two handles of eight pages are free, apart from each other; kSide was busy before
// they were.
class LargeHandles : public SizedHandlesTest {
 protected:
  static PolicyOptions Scarce() {
    PolicyOptions options = Options();
    options.piece_part = 2;
    options.exchange_percent = 12;
    return options;
  }
  LargeHandles() : SizedHandlesTest(40, Scarce()) {
    AllocatePages(1, kSide);
    std::vector<Address> blocks;
    for (int i = 0; i < 2; ++i) {
      blocks.push_back(AllocatePages(8));
      AllocatePages(1);
    }
    EXPECT_EQ(log_.TakeCreated(), (std::vector<int64_t>{1, 8, 1, 8, 1}));
    FillUp();
    MakeBusyUntil(kSide, 100);
    for (Address block : blocks) Free(block);
    device_.ResetCounters();
  }
  // Misses of ever other sizes, which no single free block serves.
  void Miss(int times) {
    for (int i = 0; i < times; ++i) Free(AllocatePages(9 + miss_++ % 7));
  }
  uint64_t given_up() const { return calls(CallKind::kRelease); }

  int miss_ = 0;
};

TEST_F(LargeHandles, AreKeptWhileAnyStreamHasNotPassed) {
  Miss(6);
  EXPECT_EQ(given_up(), 0u);
  EXPECT_EQ(calls(CallKind::kUnmap), 0u);
  EXPECT_GT(statistics().num_stitches, 0) << "they serve by remapping";
}

TEST_F(LargeHandles, AreMadeAnewSmallOnceAllStreamsHavePassed) {
  AdvanceTo(100);
  Miss(6);
  EXPECT_GE(given_up(), 1u);
  const std::vector<int64_t> created = log_.TakeCreated();
  EXPECT_GE(created.size(), 1u);
  EXPECT_EQ(created, std::vector<int64_t>(created.size(), 1));
  EXPECT_LE(device_.used(), kPageSize * 40);
}

TEST_F(LargeHandles, AreGivenUpNoMoreThanOneRequestMay) {
  PolicyOptions options = Scarce();
  options.exchange_most = 1;
  allocator_->SetOptions(options);
  AdvanceTo(100);
  Free(AllocatePages(9));
  const uint64_t before = given_up();
  Free(AllocatePages(10));
  EXPECT_LE(given_up(), before + 1);
}

TEST_F(LargeHandles, AreKeptWhereNoShareOfTheDeviceCountsAsScarce) {
  PolicyOptions options = Scarce();
  options.exchange_percent = -1;
  allocator_->SetOptions(options);
  AdvanceTo(100);
  Miss(6);
  EXPECT_EQ(given_up(), 0u);
}

TEST_F(LargeHandles, ThatCannotBeUnmappedLoseNothing) {
  AdvanceTo(100);
  Miss(1);
  for (int call = 1; call <= 4; ++call) {
    ASSERT_TRUE(device_.SetFaults(call % 2 == 0 ? "unmap@1=invalid_value" : "release@1=invalid_value"));
    Miss(1);
  }
  ASSERT_TRUE(device_.SetFaults(""));
  EXPECT_EQ(device_.used(), allocator_->Held());
  EXPECT_EQ(all(statistics().allocated_bytes), (kPageSize * 24).count());
  AllocatePages(16);
}

}  // namespace
}  // namespace frugal
