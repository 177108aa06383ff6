// Of the suite: how much memory there is, and whole segments of it, which are all that a device without virtual memory
// has.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/devices/device_conformance.h"

namespace frugal {
namespace {

TEST_P(DeviceConformance, FreeMemoryIsAtMostTheTotal) {
  const absl::StatusOr<MemoryInfo> memory = device_.GetMemoryInfo();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->free, Bytes(0));
  EXPECT_LE(memory->free, memory->total);
}

TEST_P(DeviceConformance, ASegmentTakesItsMemoryUntilItIsFreed) {
  const Bytes before = FreeMemory();
  const absl::StatusOr<Address> segment = device_.Malloc(MiB(128));
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_TRUE(IsAbout(FreeMemory(), before - MiB(128)));
  ASSERT_TRUE(device_.Free(*segment).ok());
  EXPECT_TRUE(IsAbout(FreeMemory(), before));
}

TEST_P(DeviceConformance, ASegmentCanBeReadAndWrittenToItsEnd) {
  const absl::StatusOr<Address> segment = device_.Malloc(MiB(3));
  ASSERT_TRUE(segment.ok()) << segment.status();
  under_test_->Write(*segment, "first");
  under_test_->Write(*segment + MiB(3) - Bytes(4), "last");
  EXPECT_EQ(under_test_->Read(*segment, Bytes(5)), "first");
  EXPECT_EQ(under_test_->Read(*segment + MiB(3) - Bytes(4), Bytes(4)), "last");
  ASSERT_TRUE(device_.Free(*segment).ok());
}

TEST_P(DeviceConformance, ASegmentThatIsLargerThanTheDeviceIsResourceExhausted) {
  const absl::StatusOr<MemoryInfo> memory = device_.GetMemoryInfo();
  ASSERT_TRUE(memory.ok()) << memory.status();
  const absl::Status status = device_.Malloc(memory->total + GiB(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(NamesTheError(status, "OUT_OF_MEMORY"));
}

TEST_P(DeviceConformance, WithoutVirtualMemoryItsCallsFail) {
  if (device_.HasVirtualMemory()) GTEST_SKIP() << "this device has virtual memory";
  EXPECT_EQ(device_.Reserve(kPageSize).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(device_.Create(kPageSize).status().code(), absl::StatusCode::kInternal);
}

TEST_P(DeviceConformance, AFailedCallOfASegmentHasChangedNothing) {
  if (!under_test_->SetFaults("malloc@1=unknown,free@1=unknown")) {
    GTEST_SKIP() << "this device cannot be made to fail";
  }
  const Bytes before = FreeMemory();
  const absl::Status refused = device_.Malloc(MiB(4)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(NamesTheError(refused, "UNKNOWN"));
  EXPECT_EQ(FreeMemory(), before);
  const absl::StatusOr<Address> segment = device_.Malloc(MiB(4));
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(device_.Free(*segment).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(FreeMemory(), before - MiB(4));
  EXPECT_TRUE(device_.Free(*segment).ok());
  EXPECT_EQ(FreeMemory(), before);
}

}  // namespace
}  // namespace frugal
