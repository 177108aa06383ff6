// What is known of how far a stream is, and all of them together.

#include "allocator/blocks/stream_clock.h"

#include "allocator/blocks/stream_clocks.h"
#include "tests/allocator/allocator_fixture.h"
#include "tests/allocator/held_locks.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {
namespace {

class StreamClockTest : public testing::Test {
 protected:
  sim::SimulatedDevice device_{{.memory = MiB(64)}};
  HeldLocks locks_;
  StreamClock clock_{device_, kMain, locks_.lock()};
};

TEST_F(StreamClockTest, OneAnswerServesAllEarlierTicks) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(clock_.Mark().ok());
  ASSERT_TRUE(*clock_.HasPassed(5));
  const uint64_t queries = device_.calls(sim::CallKind::kEventQuery);
  for (StreamClock::Tick tick = 1; tick <= 5; ++tick) EXPECT_TRUE(*clock_.HasPassed(tick));
  EXPECT_EQ(device_.calls(sim::CallKind::kEventQuery), queries);
}

TEST_F(StreamClockTest, ATickWhoseMarkWasRefusedEndsWithTheNextThatIsMade) {
  ASSERT_TRUE(device_.SetFaults("event_record@1=invalid_value"));
  EXPECT_FALSE(clock_.Mark().ok());
  EXPECT_FALSE(clock_.IsEnded(1));
  ASSERT_TRUE(clock_.Mark().ok());
  EXPECT_TRUE(clock_.IsEnded(2));
  EXPECT_TRUE(*clock_.HasPassed(1));
}

TEST_F(StreamClockTest, AHostsWaitSettlesWhatWasClosedBeforeItAndNothingAfter) {
  const StreamClock::Tick before = clock_.Close();
  const StreamClock::Tick meanwhile = clock_.Close();
  clock_.Settle(before);
  EXPECT_TRUE(clock_.IsPassed(before));
  EXPECT_FALSE(clock_.IsPassed(meanwhile));
  EXPECT_FALSE(clock_.IsEnded(meanwhile));
}

TEST_F(StreamClockTest, NobodyWaitsForATickThatIsKnownToHavePassed) {
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(clock_.Mark().ok());
  ASSERT_TRUE(*clock_.HasPassed(2));
  for (StreamClock::Tick tick = 0; tick <= 2; ++tick) EXPECT_TRUE(clock_.MakeWait(kSide, tick).ok());
  EXPECT_EQ(device_.calls(sim::CallKind::kStreamWait), 0u);
  ASSERT_TRUE(clock_.Mark().ok());
  EXPECT_TRUE(clock_.MakeWait(kSide, 3).ok());
  EXPECT_EQ(device_.calls(sim::CallKind::kStreamWait), 1u);
}

// The clocks of two streams that are known.
class Eras : public AllocatorTest {
 protected:
  Eras() {
    clocks_.Name(kMain);
    clocks_.Name(kSide);
  }

  Ledger ledger_;
  HeldLocks locks_;
  StreamClocks clocks_{device_, ledger_, nullptr, locks_.lock()};
};

TEST_F(Eras, OneEventForEachKnownStreamServesAllViewsLeftBehindTogether) {
  const StreamClocks::Era era = clocks_.era();
  EXPECT_TRUE(clocks_.HasPassed(era));
  EXPECT_EQ(calls(CallKind::kEventRecord), 2u);
  EXPECT_TRUE(clocks_.HasPassed(era));
  EXPECT_EQ(calls(CallKind::kEventRecord), 2u);
  EXPECT_EQ(clocks_.era(), era + 1);
}

TEST_F(Eras, AnEraPassesWhenItsLastStreamDoes) {
  MakeBusyUntil(kMain, 100);
  MakeBusyUntil(kSide, 200);
  const StreamClocks::Era era = clocks_.End();
  AdvanceTo(100);
  EXPECT_FALSE(clocks_.HasPassed(era));
  AdvanceTo(200);
  EXPECT_TRUE(clocks_.HasPassed(era));
}

TEST_F(Eras, AStreamThatIsCapturedHoldsUpNoEra) {
  device_.BeginCapture(kSide);
  EXPECT_TRUE(clocks_.HasPassed(clocks_.era()));
  EXPECT_FALSE(clocks_.WaitForAll().ok()) << "that would end the capture";
  device_.EndCapture(kSide);
  EXPECT_TRUE(clocks_.WaitForAll().ok());
}

TEST_F(Eras, NobodyWaitsForTheDeviceWhileSomebodyElseCaptures) {
  class Capturing final : public Reclaimer {
    bool ReleaseCaches() override { return false; }
    bool CollectGarbage() override { return false; }
    void WithoutCapture(absl::FunctionRef<void()>) const override {}
  } capturing;
  StreamClocks clocks(device_, ledger_, &capturing, locks_.lock());
  clocks.Name(kMain);
  const uint64_t waits = calls(CallKind::kSync);
  EXPECT_FALSE(clocks.WaitForAll().ok());
  EXPECT_EQ(calls(CallKind::kSync), waits + 1) << "for the stream's event alone";
  EXPECT_TRUE(clocks.HasPassed(clocks.era() - 1));
}

TEST_F(Eras, NobodyWaitsForTheDeviceWhileTheDriverDoesNotSayWhetherAStreamIsCaptured) {
  class SilentDevice final : public ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    absl::StatusOr<Event> Record(Stream stream) override {
      if (stream == kSide) return absl::UnknownError("the driver does not say");
      return ForwardingDevice::Record(stream);
    }
    absl::Status SynchronizeAll() override {
      ADD_FAILURE() << "that would end a capture";
      return absl::OkStatus();
    }
  } silent(device_);
  StreamClocks clocks(silent, ledger_, nullptr, locks_.lock());
  clocks.Name(kMain);
  clocks.Name(kSide);
  EXPECT_TRUE(absl::IsUnknown(clocks.WaitForAll()));
  EXPECT_EQ(ledger_.statistics().num_driver_failures, 1);
}

}  // namespace
}  // namespace frugal
