#include "tests/devices/device_conformance.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace frugal {

Bytes DeviceConformance::FreeMemory() {
  const absl::StatusOr<MemoryInfo> memory = device_.GetMemoryInfo();
  EXPECT_TRUE(memory.ok()) << memory.status();
  return memory.ok() ? memory->free : Bytes(0);
}

testing::AssertionResult DeviceConformance::IsAbout(Bytes bytes, Bytes expected) const {
  const Bytes apart = std::max(bytes, expected) - std::min(bytes, expected);
  if (apart <= under_test_->Drift()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << bytes.count() << " bytes, not " << expected.count();
}

testing::AssertionResult DeviceConformance::NamesTheError(const absl::Status& status, std::string_view name) {
  if (absl::StrContains(absl::AsciiStrToUpper(status.message()), absl::string_view(name.data(), name.size()))) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << status << " does not name " << name;
}

bool DeviceConformance::HasPassed(Event event) {
  const absl::StatusOr<bool> passed = device_.HasPassed(event);
  EXPECT_TRUE(passed.ok()) << passed.status();
  return passed.value_or(false);
}

Event DeviceConformance::RecordOn(Stream stream) {
  const absl::StatusOr<Event> event = device_.Record(stream);
  EXPECT_TRUE(event.ok()) << event.status();
  if (event.ok()) recorded_.push_back(*event);
  return event.value_or(Event());
}

void DeviceConformance::TearDown() {
  under_test_->SetFaults("");
  under_test_->EndWork();
  for (const Event event : recorded_) device_.Recycle(event);
}

void VirtualMemoryConformance::SetUp() {
  if (!device_.HasVirtualMemory()) GTEST_SKIP() << "this device has no virtual memory";
}

void VirtualMemoryConformance::TearDown() {
  DeviceConformance::TearDown();
  for (const auto& [start, size] : views_) EXPECT_TRUE(device_.Unmap(start, size).ok());
  for (const PhysicalHandle handle : handles_) EXPECT_TRUE(device_.Release(handle).ok());
  for (const auto& [start, size] : ranges_) EXPECT_TRUE(device_.Unreserve(start, size).ok());
}

Address VirtualMemoryConformance::Reserve(Bytes size) {
  const absl::StatusOr<Address> range = device_.Reserve(size);
  EXPECT_TRUE(range.ok()) << range.status();
  if (range.ok()) ranges_.emplace_back(*range, size);
  return range.value_or(Address());
}

PhysicalHandle VirtualMemoryConformance::Create(Bytes size) {
  const absl::StatusOr<PhysicalHandle> handle = device_.Create(size);
  EXPECT_TRUE(handle.ok()) << handle.status();
  if (handle.ok()) handles_.push_back(*handle);
  return handle.value_or(PhysicalHandle());
}

void VirtualMemoryConformance::Map(Address start, Bytes size, PhysicalHandle handle) {
  const absl::Status status = device_.Map(start, size, handle);
  EXPECT_TRUE(status.ok()) << status;
  if (status.ok()) views_.emplace_back(start, size);
}

void VirtualMemoryConformance::MapOpen(Address start, Bytes size, PhysicalHandle handle) {
  Map(start, size, handle);
  const absl::Status status = device_.SetAccess(start, size);
  EXPECT_TRUE(status.ok()) << status;
}

void VirtualMemoryConformance::Unmap(Address start, Bytes size) {
  const absl::Status status = device_.Unmap(start, size);
  EXPECT_TRUE(status.ok()) << status;
  std::erase_if(views_, [&](const auto& view) { return view.first >= start && view.first < start + size; });
}

void VirtualMemoryConformance::Release(PhysicalHandle handle) {
  const absl::Status status = device_.Release(handle);
  EXPECT_TRUE(status.ok()) << status;
  std::erase(handles_, handle);
}

}  // namespace frugal
