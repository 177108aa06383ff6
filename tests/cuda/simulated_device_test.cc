#include "cuda/simulated/simulated_device.h"

#include <chrono>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

constexpr ::frugal::Stream kStream{7};
constexpr ::frugal::Stream kOther{8};

TEST(SimulatedDeviceTest, MemoryRunsOutAtItsCapacityLessTheContext) {
  SimulatedDevice device({.memory = MiB(8), .context = MiB(2)});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(device.Create(kPageSize).ok());
  EXPECT_EQ(device.Create(kPageSize).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device.GetMemoryInfo()->free, Bytes(0));
  EXPECT_EQ(device.GetMemoryInfo()->total, MiB(8));
}

TEST(SimulatedDeviceTest, HandlesOfSeveralSizesTakeWhatTheySayOfOneMemory) {
  SimulatedDevice device({.memory = MiB(12)});
  const PhysicalHandle large = *device.Create(kPageSize * 4);
  EXPECT_EQ(device.used(), MiB(8));
  EXPECT_EQ(device.Create(kPageSize * 4).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(device.Create(kPageSize * 2).ok());
  ASSERT_TRUE(device.Release(large).ok());
  EXPECT_EQ(device.used(), MiB(4));
  EXPECT_FALSE(device.Create(kPageSize + KiB(64)).ok()) << "not whole pages";
}

TEST(SimulatedDeviceTest, EventPassesWhenTheClockReachesTheStreamsWork) {
  SimulatedDevice device;
  device.MakeBusyUntil(kStream, microseconds(10));
  const ::frugal::Event event = *device.Record(kStream);
  device.AdvanceTo(microseconds(9));
  EXPECT_FALSE(*device.HasPassed(event));
  device.AdvanceTo(microseconds(10));
  EXPECT_TRUE(*device.HasPassed(event));
}

TEST(SimulatedDeviceTest, WaitOfTheHostEndsWithTheWorkThatAStreamWaitsFor) {
  SimulatedDevice device;
  device.MakeBusyUntil(kStream, microseconds(10));
  ASSERT_TRUE(device.StreamWait(kOther, *device.Record(kStream)).ok());
  ASSERT_TRUE(device.Synchronize(*device.Record(kOther)).ok());
  EXPECT_EQ(device.now(), microseconds(10));
}

TEST(SimulatedDeviceTest, RecycledEventIsNotKnownAnyMore) {
  SimulatedDevice device;
  const ::frugal::Event event = *device.Record(kStream);
  EXPECT_EQ(device.live_events(), 1);
  device.Recycle(event);
  EXPECT_EQ(device.live_events(), 0);
  EXPECT_EQ(device.HasPassed(event).status().code(), absl::StatusCode::kInternal);
}

TEST(SimulatedDeviceTest, SegmentIsWholePagesAndItsFreeWaitsForNothing) {
  SimulatedDevice device({.virtual_memory = false});
  const Address segment = *device.Malloc(MiB(3));
  EXPECT_EQ(device.used(), MiB(4));
  device.MakeBusyUntil(kStream, microseconds(10));
  ASSERT_TRUE(device.Free(segment).ok());
  EXPECT_EQ(device.now(), microseconds(0));
  EXPECT_EQ(device.used(), Bytes(0));
}

TEST(SimulatedDeviceTest, FaultPlanFailsTheCallItNames) {
  SimulatedDevice device;
  ASSERT_TRUE(device.SetFaults("create@2=out_of_memory,event_record@1+=unknown"));
  EXPECT_TRUE(device.Create(kPageSize).ok());
  EXPECT_EQ(device.Create(kPageSize).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(device.Create(kPageSize).ok());
  EXPECT_EQ(device.Record(kStream).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(device.live_events(), 0);
  EXPECT_FALSE(device.SetFaults("create@0=out_of_memory"));
}

}  // namespace
}  // namespace frugal::sim
