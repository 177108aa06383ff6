// The models notice a device that lies, and what they say is made small: a test of the tests.

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/devices/forwarding_device.h"
#include "tests/shadow/campaign.h"

namespace frugal::shadow {
namespace {

enum class Lie {
  kEveryEventHasPassed,
  kHostDoesNotWait,
  kStreamDoesNotWait,
  kEventOfAnotherStream,
  kSameHandleAgain,
  kMapsTheHandleBefore,
  kMapsALargeHandleAPageOff,
  kSetsNoAccess,
  kSetsAccessOfAllButTheLast,
  kDoesNotUnmap,
  kDoesNotRelease,
};

// Does as it is told, but for one kind of call, of which it says that it was done.
class LyingDevice final : public ForwardingDevice {
 public:
  LyingDevice(Device& device, Lie lie) : ForwardingDevice(device), lie_(lie) {}

  absl::StatusOr<PhysicalHandle> Create(Bytes size) override {
    const auto latest = latest_.find(size);
    if (Lies(Lie::kSameHandleAgain) && latest != latest_.end()) return latest_.extract(latest).mapped();
    absl::StatusOr<PhysicalHandle> handle = ForwardingDevice::Create(size);
    if (handle.ok()) latest_[size] = *handle;
    return handle;
  }
  absl::Status Release(PhysicalHandle handle) override {
    return Lies(Lie::kDoesNotRelease) ? absl::OkStatus() : ForwardingDevice::Release(handle);
  }
  absl::Status Map(Address start, Bytes size, PhysicalHandle handle) override {
    const PhysicalHandle before = std::exchange(mapped_[size], handle);
    if (Lies(Lie::kMapsTheHandleBefore) && before.id != 0) return ForwardingDevice::Map(start, size, before);
    const bool is_large = size > kPageSize;
    if (Lies(Lie::kMapsALargeHandleAPageOff) && is_large) return ForwardingDevice::Map(start + kPageSize, size, handle);
    sizes_[start] = size;
    return ForwardingDevice::Map(start, size, handle);
  }
  absl::Status SetAccess(Address start, Bytes size) override {
    if (Lies(Lie::kSetsNoAccess)) return absl::OkStatus();
    if (!Lies(Lie::kSetsAccessOfAllButTheLast)) return ForwardingDevice::SetAccess(start, size);
    Bytes all_but_last;
    for (Bytes next; next < size; next += sizes_.at(start + next)) all_but_last = next;
    return all_but_last == Bytes(0) ? absl::OkStatus() : ForwardingDevice::SetAccess(start, all_but_last);
  }
  absl::Status Unmap(Address start, Bytes size) override {
    return Lies(Lie::kDoesNotUnmap) ? absl::OkStatus() : ForwardingDevice::Unmap(start, size);
  }
  absl::StatusOr<Event> Record(Stream stream) override {
    return ForwardingDevice::Record(Lies(Lie::kEventOfAnotherStream) ? Stream{stream.id % kStreams + 1} : stream);
  }
  absl::StatusOr<bool> HasPassed(Event event) override {
    return Lies(Lie::kEveryEventHasPassed) ? true : ForwardingDevice::HasPassed(event);
  }
  absl::Status StreamWait(Stream stream, Event event) override {
    return Lies(Lie::kStreamDoesNotWait) ? absl::OkStatus() : ForwardingDevice::StreamWait(stream, event);
  }
  absl::Status Synchronize(Event event) override {
    return Lies(Lie::kHostDoesNotWait) ? absl::OkStatus() : ForwardingDevice::Synchronize(event);
  }
  absl::Status SynchronizeAll() override {
    return Lies(Lie::kHostDoesNotWait) ? absl::OkStatus() : ForwardingDevice::SynchronizeAll();
  }

 private:
  bool Lies(Lie lie) const { return lie == lie_; }

  const Lie lie_;
  std::map<Bytes, PhysicalHandle> latest_;  // by size
  std::map<Bytes, PhysicalHandle> mapped_;  // the same
  std::map<Address, Bytes> sizes_;          // of what is mapped there
};

struct Case {
  Lie lie;
  const char* name;
  const char* said;  // a part of what the models say
};

class Lies : public testing::TestWithParam<Case> {};

TEST_P(Lies, OfTheDeviceAreNoticedAndMadeSmall) {
  Campaign campaign{.first_seed = 7, .operations = 400'000, .operations_of_program = 200};
  campaign.between = [](Device& device) { return std::make_unique<LyingDevice>(device, GetParam().lie); };
  const CampaignResult result = RunCampaign(campaign);
  std::printf("%s\n", ToText(campaign, result).c_str());
  EXPECT_NE(result.failure.find(GetParam().said), std::string::npos) << result.failure;
  EXPECT_LE(result.shrunk.operations.size(), 9U);
}

INSTANTIATE_TEST_SUITE_P(
    , Lies,
    testing::Values(Case{Lie::kEveryEventHasPassed, "EveryEventHasPassed", "nothing orders the two"},
                    Case{Lie::kHostDoesNotWait, "HostDoesNotWait", "may"},
                    Case{Lie::kStreamDoesNotWait, "StreamDoesNotWait", "nothing orders the two"},
                    Case{Lie::kEventOfAnotherStream, "EventOfAnotherStream", "may"},
                    Case{Lie::kSameHandleAgain, "SameHandleAgain", "which is in use"},
                    Case{Lie::kMapsTheHandleBefore, "MapsTheHandleBefore", "which is in use"},
                    Case{Lie::kMapsALargeHandleAPageOff, "MapsALargeHandleAPageOff", ""},
                    Case{Lie::kSetsNoAccess, "SetsNoAccess", "has a page without access"},
                    Case{Lie::kSetsAccessOfAllButTheLast, "SetsAccessOfAllButTheLast", "has a page without access"},
                    Case{Lie::kDoesNotUnmap, "DoesNotUnmap", ""}, Case{Lie::kDoesNotRelease, "DoesNotRelease", ""}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace frugal::shadow
