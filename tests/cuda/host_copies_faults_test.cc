// Each call of the driver that HostCopies makes fails once, alone or with all that follow.

#include <vector>

#include "absl/status/status.h"
#include "cuda/host_copies.h"
#include "gtest/gtest.h"
#include "tests/cuda/host_copies_fixture.h"

namespace frugal {
namespace {

using Kind = HostCopies::Kind;

class HostCopiesFaultsTest : public HostCopiesTest {
 protected:
  // Falls asleep and wakes while call number `call` fails; what the failed step left is checked, and it is done again.
  void Cycle(int call, bool and_all_after) {
    SCOPED_TRACE(testing::Message() << "call " << call << (and_all_after ? " and all after" : ""));
    copies_ = MakeCopies();
    Write(ranges_, 1);
    FailNext(call, and_all_after);
    if (!copies_->Reserve(ranges_, GetParam()).ok()) {
      FailNothing();
      EXPECT_TRUE(and_all_after || copies_->host() == Bytes(0));
      ASSERT_TRUE(copies_->Reserve(ranges_, GetParam()).ok());
    }
    if (!copies_->CopyOut(ranges_).ok()) {
      FailNothing();
      EXPECT_TRUE(Holds(ranges_, 1)) << "the device has what it had";
      EXPECT_EQ(CopyIn(ranges_), Bytes(0));
      CopyOut(ranges_, GetParam());
    }
    Lose(ranges_);
    if (!copies_->CopyIn(ranges_).ok()) {
      FailNothing();
      // Nothing is under way: what is mapped there next is left alone.
      Write(ranges_, 2);
      EXPECT_EQ(SIMULATED(cudaDeviceSynchronize)(), cudaSuccess);
      EXPECT_TRUE(and_all_after || Holds(ranges_, 2));
      EXPECT_EQ(CopyIn(ranges_), Total(ranges_));
    }
    EXPECT_TRUE(Holds(ranges_, 1));
    if (!copies_->Fill(ranges_).ok()) {
      FailNothing();
      EXPECT_TRUE(copies_->Fill(ranges_).ok());
    }
    copies_->KeepOnly({});
    if (!copies_->Trim().ok()) {
      FailNothing();
      EXPECT_TRUE(copies_->Trim().ok());
    }
    EXPECT_EQ(copies_->host(), Bytes(0));
    EXPECT_EQ(Live(), 0);
  }

  const Address memory_ = NewMemory(MiB(40));
  // Pageable memory: more than the ring holds.
  const Ranges ranges_ = {{memory_ + Bytes(5), Bytes(700)},
                          {memory_ + MiB(1), MiB(GetParam() == Kind::kPageable ? 7 : 1)},
                          {memory_ + MiB(30), MiB(3)}};
};

INSTANTIATE_TEST_SUITE_P(Both, HostCopiesFaultsTest, testing::Values(Kind::kPinned, Kind::kPageable), KindName);

TEST_P(HostCopiesFaultsTest, NothingIsLostOrLeftBehindByOneFailedCallOrByAllFromThereOn) {
  for (const bool and_all_after : {false, true}) {
    int call = 0;
    do {
      watch.failed = 0;
      Cycle(++call, and_all_after);
    } while (!HasFatalFailure() && watch.failed > 0);
    EXPECT_GT(call, 20);
  }
}

}  // namespace
}  // namespace frugal
