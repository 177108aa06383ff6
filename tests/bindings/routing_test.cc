#include "bindings/adapter/routing.h"

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace frugal {
namespace {

constexpr MempoolId_t kPool{0, 1};

bool OfAnyStream(cudaStream_t) { return true; }

TEST(Routing, OpensNoPoolOfAGpuWhileSomebodyReliesOnThereBeingNone) {
  Routing routing;
  absl::Notification is_inside;
  absl::Notification may_end;
  std::atomic<bool> has_ended{false};
  std::thread relying([&] {
    routing.WithoutOpenPool(0, [&] {
      is_inside.Notify();
      may_end.WaitForNotification();
      has_ended = true;
    });
  });
  is_inside.WaitForNotification();
  std::thread opening([&] {
    routing.Open(0, kPool, OfAnyStream);
    EXPECT_TRUE(has_ended);
  });
  // Another GPU's is opened at once.
  routing.Open(1, kPool, OfAnyStream);
  EXPECT_FALSE(has_ended);
  may_end.Notify();
  relying.join();
  opening.join();
}

TEST(Routing, CallsNobodyWhoReliesOnThereBeingNoPoolWhileOneIsOpen) {
  Routing routing;
  int calls = 0;
  routing.Open(0, kPool, OfAnyStream);
  routing.WithoutOpenPool(0, [&] { ++calls; });
  EXPECT_EQ(calls, 0);
  routing.Close(0, kPool);
  routing.WithoutOpenPool(0, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace frugal
