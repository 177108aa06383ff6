#include "bindings/adapter/routing.h"

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

constexpr MempoolId_t kPool{0, 1};

bool OfAnyStream(cudaStream_t) { return true; }

TEST(Routing, OpensNoPoolForAGraphWhileSomebodyReliesOnThereBeingNone) {
  Routing routing;
  absl::Notification is_inside;
  absl::Notification may_end;
  std::atomic<bool> has_ended{false};
  std::thread relying([&] {
    routing.WithoutCapture(0, [&] {
      is_inside.Notify();
      may_end.WaitForNotification();
      has_ended = true;
    });
  });
  is_inside.WaitForNotification();
  std::thread opening([&] {
    routing.Open(0, kPool, MemoryKind::kSegment, OfAnyStream, /*may_capture=*/true);
    EXPECT_TRUE(has_ended);
  });
  // Another GPU's is opened at once, and so is one that no graph is captured into.
  routing.Open(1, kPool, MemoryKind::kSegment, OfAnyStream, /*may_capture=*/true);
  routing.Open(0, {0, 2}, MemoryKind::kSegment, OfAnyStream, /*may_capture=*/false);
  EXPECT_FALSE(has_ended);
  may_end.Notify();
  relying.join();
  opening.join();
}

TEST(Routing, CallsNobodyWhoReliesOnThereBeingNoCaptureWhileOneMayBe) {
  Routing routing;
  int calls = 0;
  routing.Open(0, kPool, MemoryKind::kSegment, OfAnyStream, /*may_capture=*/true);
  routing.WithoutCapture(0, [&] { ++calls; });
  EXPECT_EQ(calls, 0);
  routing.Close(0, kPool);
  routing.Open(0, kPool, MemoryKind::kSegment, OfAnyStream, /*may_capture=*/false);
  routing.WithoutCapture(0, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(Routing, TheLatestPoolThatTakesARequestHasIt) {
  constexpr MempoolId_t kInner{0, 2};
  Routing routing;
  routing.Open(0, kPool, MemoryKind::kSegment, OfAnyStream, /*may_capture=*/false);
  routing.Open(0, kInner, MemoryKind::kSegment, OfAnyStream, /*may_capture=*/false);
  EXPECT_EQ(routing.DestinationOf(0, nullptr).pool, kInner);
  EXPECT_EQ(routing.DestinationOf(1, nullptr).pool, kDefaultPool);
  routing.Close(0, kInner);
  EXPECT_EQ(routing.DestinationOf(0, nullptr).pool, kPool);
}

TEST(Routing, APoolThatIsCapturedIntoGetsFixedMemoryFromThenOn) {
  Routing routing;
  routing.Open(0, kPool, MemoryKind::kMovable, OfAnyStream, /*may_capture=*/false);
  EXPECT_EQ(routing.DestinationOf(0, nullptr).kind, MemoryKind::kMovable);
  EXPECT_FALSE(routing.DestinationOf(0, nullptr).may_be_captured);
  routing.Open(
      0, {0, 2}, MemoryKind::kSegment, [](cudaStream_t) { return false; }, /*may_capture=*/true);
  EXPECT_TRUE(routing.DestinationOf(0, nullptr).may_be_captured);
  routing.SetKind(0, kPool, MemoryKind::kFixed);
  EXPECT_EQ(routing.DestinationOf(0, nullptr).kind, MemoryKind::kFixed);
}

}  // namespace
}  // namespace frugal
