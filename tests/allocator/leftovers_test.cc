// What a failed call leaves over: handles without a place, some of which can still be seen. They are held, found by the
// next miss, and given back by Trim, one by one.

#include <string>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

class Leftovers : public AllocatorTest {
 protected:
  // Four handles that are mapped, and whose mapping could neither be opened for access nor undone.
  void SetUp() override {
    ASSERT_TRUE(device_.SetFaults("set_access@1+=invalid_value,unmap@1+=unmap_failed"));
    ASSERT_FALSE(allocator_->Allocate(MiB(8), kMain).ok());
    ASSERT_TRUE(device_.SetFaults(""));
    allocator_->inspect().CheckInvariants();
    ASSERT_EQ(Held(), MiB(8));
    ASSERT_EQ(all(statistics().reserved_bytes), MiB(8).count()) << "what is held counts, also where no block lies";
  }
  absl::StatusOr<Bytes> Trim(Bytes enough = kUnlimited) {
    absl::StatusOr<Bytes> returned = allocator_->Trim(enough);
    allocator_->inspect().CheckInvariants();
    EXPECT_EQ(device_.used(), Held());
    return returned;
  }
};

TEST_F(Leftovers, AreTakenByTheNextMissBeforeNewMemory) {
  device_.ResetCounters();
  Allocate(MiB(8));
  EXPECT_EQ(calls(CallKind::kCreate), 0u);
  EXPECT_EQ(Held(), MiB(8));
}

TEST_F(Leftovers, CountAgainstTheLimitButOnce) {
  allocator_->settings().limit().Set(MiB(16));
  EXPECT_TRUE(IsOutOfMemory(MiB(18)));
  Allocate(MiB(16));
  EXPECT_EQ(Held(), MiB(16));
}

TEST_F(Leftovers, GoBackAsFarAsIsWantedAndTheRestLater) {
  EXPECT_EQ(Trim(MiB(2)).value_or(Bytes(-1)), MiB(2));
  EXPECT_EQ(Held(), MiB(6));
  EXPECT_EQ(calls(CallKind::kRelease), 1u);
  EXPECT_EQ(Trim(MiB(3)).value_or(Bytes(-1)), MiB(4));
  EXPECT_EQ(Trim().value_or(Bytes(-1)), MiB(2));
  EXPECT_EQ(device_.used(), Bytes(0));
}

TEST_F(Leftovers, ThatCannotBeUnmappedStayAndTrimSaysWhatTheDriverSaid) {
  // The second handle's, then as well when Trim tries once more.
  ASSERT_TRUE(device_.SetFaults("unmap@2=unmap_failed,unmap@5=unmap_failed"));
  const absl::Status status = Trim().status();
  EXPECT_NE(status.message().find("unmap_failed"), std::string::npos) << status;
  EXPECT_EQ(Held(), MiB(2)) << "the others went";
  ASSERT_TRUE(device_.SetFaults(""));
  EXPECT_EQ(Trim().value_or(Bytes(-1)), MiB(2));
}

// As when a view's stream is being captured: no error, only later.
TEST_F(Leftovers, ThatMustWaitStayWithoutAnError) {
  ASSERT_TRUE(device_.SetFaults("unmap@1=capture_unsupported"));
  EXPECT_EQ(Trim().value_or(Bytes(-1)), MiB(6));
  EXPECT_EQ(Trim().value_or(Bytes(-1)), MiB(2));
}

TEST_F(Leftovers, ThatTheDeviceRefusesDoNotCountAmongThoseThatWent) {
  ASSERT_TRUE(device_.SetFaults("release@1=invalid_value,release@2=invalid_value"));
  EXPECT_EQ(Trim(MiB(2)).value_or(Bytes(-1)), MiB(2));
  EXPECT_EQ(Held(), MiB(6)) << "a third one went in their place";
  EXPECT_EQ(Trim().value_or(Bytes(-1)), MiB(6));
}

}  // namespace
}  // namespace frugal
