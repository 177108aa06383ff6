// Of the suite: memory that is made, mapped, reached, unmapped and given back.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/devices/device_conformance.h"

namespace frugal {
namespace {

TEST_P(VirtualMemoryConformance, AHandleTakesItsSizeOfTheMemoryUntilItIsReleased) {
  for (const int64_t pages : {1, 2, 64}) {
    SCOPED_TRACE(pages);
    const Bytes before = FreeMemory();
    const PhysicalHandle handle = Create(kPageSize * pages);
    EXPECT_TRUE(IsAbout(FreeMemory(), before - kPageSize * pages));
    Release(handle);
    EXPECT_TRUE(IsAbout(FreeMemory(), before));
  }
}

TEST_P(VirtualMemoryConformance, MemoryOfAReleasedHandleGoesWithItsLastView) {
  const Bytes size = kPageSize * 64;
  const Address range = Reserve(size * 2);
  const Bytes before = FreeMemory();
  const PhysicalHandle handle = Create(size);
  Map(range, size, handle);
  Map(range + size, size, handle);
  Release(handle);
  Unmap(range, size);
  EXPECT_TRUE(IsAbout(FreeMemory(), before - size));
  Unmap(range + size, size);
  EXPECT_TRUE(IsAbout(FreeMemory(), before));
}

TEST_P(VirtualMemoryConformance, AViewOfAReleasedHandleCanStillBeUsed) {
  const Address range = Reserve(kPageSize);
  const PhysicalHandle handle = Create(kPageSize);
  MapOpen(range, kPageSize, handle);
  Release(handle);
  under_test_->Write(range, "kept");
  EXPECT_EQ(under_test_->Read(range, Bytes(4)), "kept");
}

TEST_P(VirtualMemoryConformance, AHandleThatIsLargerThanWhatIsFreeIsResourceExhaustedAndASmallerOneIsNot) {
  const Bytes free = RoundDown(FreeMemory(), kPageSize);
  Create(RoundDown(Bytes(free.count() / 2), kPageSize));
  EXPECT_EQ(device_.Create(free).status().code(), absl::StatusCode::kResourceExhausted);
  Create(kPageSize);
}

TEST_P(VirtualMemoryConformance, ReservedRangesAreWholePagesThatDoNotOverlap) {
  const Bytes size = kPageSize * 3;
  std::vector<Address> ranges;
  for (int i = 0; i < 4; ++i) ranges.push_back(Reserve(size));
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(ranges[i].value() % static_cast<uint64_t>(kPageSize.count()), 0u);
    if (i == 0) continue;
    EXPECT_LE(ranges[i - 1] + size, ranges[i]);
  }
}

TEST_P(VirtualMemoryConformance, AReservedRangeTakesNoMemory) {
  const Bytes before = FreeMemory();
  Reserve(GiB(8));
  EXPECT_TRUE(IsAbout(FreeMemory(), before));
}

TEST_P(VirtualMemoryConformance, AWriteThroughOneViewIsSeenThroughTheOther) {
  const Address range = Reserve(kPageSize * 2);
  const PhysicalHandle handle = Create(kPageSize);
  Map(range, kPageSize, handle);
  Map(range + kPageSize, kPageSize, handle);
  ASSERT_TRUE(device_.SetAccess(range, kPageSize * 2).ok());
  under_test_->Write(range + Bytes(5), "one");
  EXPECT_EQ(under_test_->Read(range + kPageSize + Bytes(5), Bytes(3)), "one");
  under_test_->Write(range + kPageSize + Bytes(5), "two");
  EXPECT_EQ(under_test_->Read(range + Bytes(5), Bytes(3)), "two");
}

TEST_P(VirtualMemoryConformance, AnUnmappedHandleKeepsItsBytes) {
  const Address range = Reserve(kPageSize * 2);
  const PhysicalHandle handle = Create(kPageSize);
  MapOpen(range, kPageSize, handle);
  under_test_->Write(range + Bytes(7), "kept");
  Unmap(range, kPageSize);
  MapOpen(range + kPageSize, kPageSize, handle);
  EXPECT_EQ(under_test_->Read(range + kPageSize + Bytes(7), Bytes(4)), "kept");
}

TEST_P(VirtualMemoryConformance, AnUnmappedPageTakesAnotherHandle) {
  const Address range = Reserve(kPageSize);
  const PhysicalHandle first = Create(kPageSize);
  const PhysicalHandle second = Create(kPageSize);
  MapOpen(range, kPageSize, first);
  under_test_->Write(range, "first");
  Unmap(range, kPageSize);
  MapOpen(range, kPageSize, second);
  under_test_->Write(range, "other");
  Unmap(range, kPageSize);
  MapOpen(range, kPageSize, first);
  EXPECT_EQ(under_test_->Read(range, Bytes(5)), "first");
}

TEST_P(VirtualMemoryConformance, MapOverAMappedPageIsRefused) {
  const Address range = Reserve(kPageSize * 2);
  const PhysicalHandle first = Create(kPageSize);
  MapOpen(range + kPageSize, kPageSize, first);
  under_test_->Write(range + kPageSize, "first");
  EXPECT_EQ(device_.Map(range + kPageSize, kPageSize, Create(kPageSize)).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(device_.Map(range, kPageSize * 2, Create(kPageSize * 2)).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(under_test_->Read(range + kPageSize, Bytes(5)), "first");
}

TEST_P(VirtualMemoryConformance, HandlesOfSeveralSizesSideBySideAreOneRange) {
  // Of 4, 1 and 2 pages, and the first of them once more behind.
  const Address range = Reserve(kPageSize * 11);
  const PhysicalHandle large = Create(kPageSize * 4);
  const PhysicalHandle small = Create(kPageSize);
  const PhysicalHandle middle = Create(kPageSize * 2);
  Map(range, kPageSize * 4, large);
  Map(range + kPageSize * 4, kPageSize, small);
  Map(range + kPageSize * 5, kPageSize * 2, middle);
  Map(range + kPageSize * 7, kPageSize * 4, large);
  ASSERT_TRUE(device_.SetAccess(range, kPageSize * 11).ok());
  under_test_->Write(range + kPageSize * 4 - Bytes(4), "tailhead");
  EXPECT_EQ(under_test_->Read(range + kPageSize * 11 - Bytes(4), Bytes(4)), "tail") << "the large handle's last bytes";
  EXPECT_EQ(under_test_->Read(range + kPageSize * 4, Bytes(4)), "head");
  Unmap(range, kPageSize * 11);
}

// --- Failures.

TEST_P(VirtualMemoryConformance, MemoryThatRunsOutInTheDriverIsResourceExhausted) {
  if (!under_test_->SetFaults("create@1=out_of_memory")) GTEST_SKIP() << "this device cannot be made to fail";
  const absl::Status status = device_.Create(kPageSize).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(NamesTheError(status, "OUT_OF_MEMORY"));
  Create(kPageSize);
}

TEST_P(VirtualMemoryConformance, AddressesThatRunOutAreNotMemoryThatRunsOut) {
  if (!under_test_->SetFaults("reserve@1=out_of_memory")) GTEST_SKIP() << "this device cannot be made to fail";
  const absl::Status status = device_.Reserve(kPageSize).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(NamesTheError(status, "OUT_OF_MEMORY"));
  Reserve(kPageSize);
}

TEST_P(VirtualMemoryConformance, AMappingWithoutAPlaceIsAbortedWhileMemoryIsFree) {
  if (!under_test_->SetFaults("map@1=out_of_memory")) GTEST_SKIP() << "this device cannot be made to fail";
  const Address range = Reserve(kPageSize);
  const PhysicalHandle handle = Create(kPageSize);
  EXPECT_EQ(device_.Map(range, kPageSize, handle).code(), absl::StatusCode::kAborted);
  Map(range, kPageSize, handle);
  ASSERT_TRUE(under_test_->SetFaults("set_access@1=out_of_memory"));
  EXPECT_EQ(device_.SetAccess(range, kPageSize).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(device_.SetAccess(range, kPageSize).ok());
}

TEST_P(VirtualMemoryConformance, AMappingThatFailsOnAFullDeviceIsResourceExhausted) {
  if (!under_test_->SetFaults("")) GTEST_SKIP() << "this device cannot be made to fail";
  const Address range = Reserve(kPageSize);
  const PhysicalHandle handle = Create(kPageSize);
  Create(RoundDown(FreeMemory(), kPageSize));
  ASSERT_TRUE(under_test_->SetFaults("map@1=out_of_memory,set_access@1=out_of_memory"));
  EXPECT_EQ(device_.Map(range, kPageSize, handle).code(), absl::StatusCode::kResourceExhausted);
  Map(range, kPageSize, handle);
  EXPECT_EQ(device_.SetAccess(range, kPageSize).code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(VirtualMemoryConformance, AFailedCallHasChangedNothing) {
  if (!under_test_->SetFaults("")) GTEST_SKIP() << "this device cannot be made to fail";
  const Bytes before = FreeMemory();
  const auto fails_once = [this](const std::string& call, auto make) {
    SCOPED_TRACE(call);
    ASSERT_TRUE(under_test_->SetFaults(call + "@1=unknown"));
    EXPECT_EQ(make().code(), absl::StatusCode::kInternal);
    const absl::Status again = make();
    EXPECT_TRUE(again.ok()) << again;
  };
  absl::StatusOr<Address> range;
  absl::StatusOr<PhysicalHandle> handle;
  fails_once("reserve", [&] { return (range = device_.Reserve(kPageSize)).status(); });
  fails_once("create", [&] { return (handle = device_.Create(kPageSize)).status(); });
  ASSERT_TRUE(range.ok() && handle.ok());
  fails_once("map", [&] { return device_.Map(*range, kPageSize, *handle); });
  fails_once("set_access", [&] { return device_.SetAccess(*range, kPageSize); });
  EXPECT_EQ(FreeMemory(), before - kPageSize);
  fails_once("unmap", [&] { return device_.Unmap(*range, kPageSize); });
  fails_once("release", [&] { return device_.Release(*handle); });
  fails_once("unreserve", [&] { return device_.Unreserve(*range, kPageSize); });
  EXPECT_EQ(FreeMemory(), before);
}

}  // namespace
}  // namespace frugal
