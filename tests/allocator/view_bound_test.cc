// Mappings and ranges are bounded, whatever a stream does that was named once.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <vector>

#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {
namespace {

constexpr Stream kExternal{7, /*context=*/0, /*life=*/1};
constexpr sim::Nanoseconds kForEver(int64_t{1} << 60);

// Counts what is mapped, of which there may be so much at most, as on a machine that processes share. Events of kSide
// can be made to fail.
class CountingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::StatusOr<Event> Record(Stream stream) override {
    if (side_fails && stream == kSide) return absl::InternalError("CUDA_ERROR_INVALID_HANDLE");
    return ForwardingDevice::Record(stream);
  }

  int64_t places = INT64_MAX;
  bool side_fails = false;
  int64_t ranges = 0;
  int64_t mapped = 0;
  int64_t most_mapped = 0;
  int64_t waits = 0;

 private:
  absl::Status Before(Call call) override {
    if (call == Call::kMap && mapped >= places) return absl::AbortedError("no place for another mapping");
    return absl::OkStatus();
  }
  void Succeeded(const MadeCall& call) override {
    ranges += call.kind == Call::kReserve;
    waits += call.kind == Call::kSynchronizeAll;
    if (call.kind == Call::kMap) most_mapped = std::max(most_mapped, ++mapped);
    if (call.kind == Call::kUnmap) --mapped;
  }
};

// Blocks of random sizes, which fill a GPU to six sevenths.
class Churn {
 public:
  explicit Churn(int64_t places = INT64_MAX, uint64_t seed = 1) : random_(seed) { device.places = places; }

  void Run() {
    constexpr int kSteps = 4000;
    for (int step = 0; step < kSteps; ++step) {
      const Bytes size = MiB(1) + Bytes(static_cast<int64_t>(random_() % static_cast<uint64_t>(MiB(40).count())));
      while (!live_.empty() && in_use_ + size > MiB(440)) FreeOne(random_() % live_.size());
      const absl::StatusOr<Allocation> made = allocator.Allocate(size, kMain);
      if (!made.ok()) {
        ++failed;
        continue;
      }
      live_.push_back(*made);
      in_use_ += made->size;
    }
    allocator.inspect().CheckInvariants();
    while (!live_.empty()) FreeOne(live_.size() - 1);
  }
  // A block of `stream`, given back.
  void Use(Stream stream) { EXPECT_TRUE(allocator.Free(allocator.Allocate(KiB(4), stream)->address).ok()); }
  Bytes ReturnIdle() {
    Bytes returned;
    for (int interval = 0; interval < 2; ++interval) {
      EXPECT_TRUE(allocator.MarkUse().ok());
      returned += allocator.ReturnIdle(kUnlimited).value_or(Bytes(0));
    }
    return returned;
  }

  sim::SimulatedDevice gpu{{.memory = MiB(512)}};
  CountingDevice device{gpu};
  AddressDirectory directory;
  DeviceAllocator allocator{device, directory, nullptr};
  int64_t failed = 0;

 private:
  void FreeOne(size_t which) {
    in_use_ -= live_[which].size;
    EXPECT_TRUE(allocator.Free(live_[which].address).ok());
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  std::mt19937_64 random_;
  std::vector<Allocation> live_;
  Bytes in_use_;
};

struct Disturbance {
  const char* name;
  std::function<void(Churn&)> begin;
  bool host_waits;
};

const Disturbance kDisturbances[] = {
    {"a stream that is destroyed",
     [](Churn& churn) {
       churn.Use(kExternal);
       churn.gpu.EndStream(kExternal);
     },
     true},
    {"a stream that is busy for ever",
     [](Churn& churn) {
       churn.Use(kSide);
       churn.gpu.MakeBusyUntil(kSide, kForEver);
     },
     false},
    {"a stream whose events fail",
     [](Churn& churn) {
       churn.Use(kSide);
       churn.device.side_fails = true;
     },
     true},
};

void PrintTo(const Disturbance& disturbance, std::ostream* out) { *out << disturbance.name; }

class ViewBound : public testing::TestWithParam<Disturbance> {};

// Where in a range blocks happen to lie says whether another is needed, so this is said of several programs together.
TEST_P(ViewBound, AsMuchIsMappedAsWithoutTheStream) {
  constexpr int kPrograms = 8;
  int64_t mapped_without = 0;
  int64_t mapped = 0;
  int64_t ranges_without = 0;
  int64_t ranges = 0;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    Churn undisturbed(INT64_MAX, seed);
    undisturbed.Run();
    mapped_without += undisturbed.device.most_mapped;
    ranges_without += undisturbed.device.ranges;
    Churn churn(INT64_MAX, seed);
    GetParam().begin(churn);
    churn.Run();
    mapped += churn.device.most_mapped;
    ranges += churn.device.ranges;
    EXPECT_EQ(churn.failed, 0);
    EXPECT_EQ(churn.gpu.uses_of_ended_streams(), 0);
  }
  std::printf("%d programs: %d mapped in %d ranges, %d in %d without the stream\n", kPrograms, static_cast<int>(mapped),
              static_cast<int>(ranges), static_cast<int>(mapped_without), static_cast<int>(ranges_without));
  EXPECT_LE(mapped, mapped_without * 12 / 10);
  // One for the small block of the stream itself.
  EXPECT_LE(ranges, ranges_without + kPrograms);
}

TEST_P(ViewBound, NoRequestFailsForWantOfPlacesForMappings) {
  Churn churn(/*places=*/2048);
  GetParam().begin(churn);
  churn.Run();
  EXPECT_EQ(churn.failed, 0);
}

TEST_P(ViewBound, TheHostWaitsSeldomAndForNoStreamThatMayNeverEndAndIdleMemoryGoesBack) {
  Churn churn;
  GetParam().begin(churn);
  churn.Run();
  EXPECT_GE(churn.device.waits, GetParam().host_waits ? 1 : 0);
  EXPECT_LE(churn.device.waits, GetParam().host_waits ? 10 : 0);
  const Bytes held = churn.allocator.inspect().Held();
  EXPECT_GE(churn.ReturnIdle(), held - MiB(2)) << "all but the page of the stream itself";
  if (!GetParam().host_waits) {
    EXPECT_EQ(churn.gpu.now().count(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, ViewBound, testing::ValuesIn(kDisturbances));

}  // namespace
}  // namespace frugal
