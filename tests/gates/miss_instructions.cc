// Misses of a full GPU of 10,000 handles, and hits beside blocks that have tags or sleep, for callgrind to count the
// instructions of: each writes an output file of its own. The device's own instructions are left out, since a real
// driver's would be others.
//
//   valgrind --tool=callgrind --collect-atstart=no --callgrind-out-file=FILE miss_instructions

#include <valgrind/callgrind.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/device_allocator.h"
#include "simulated_gpu/machine/simulated_device.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {
namespace {

constexpr Stream kMain{1};
constexpr int64_t kHandles = 10'000;
constexpr int kMisses = 25;
constexpr int kHits = 1000;

// Instructions inside of it are not counted.
class UncountedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

 private:
  absl::Status Before(Call) override {
    CALLGRIND_TOGGLE_COLLECT;
    return absl::OkStatus();
  }
  void Made(Call) override { CALLGRIND_TOGGLE_COLLECT; }
};

class FullGpu {
 public:
  FullGpu() {
    std::vector<Address> pages;
    for (int64_t i = 0; i < kHandles; ++i) pages.push_back(Allocate(kPageSize));
    // No two neighbours.
    for (size_t i = 0; i < pages.size(); i += 2) Free(pages[i]);
  }

  // Of 100 MiB, and a little less each time, so that none was stitched in the same size before.
  void Miss(int which) {
    const Bytes size = MiB(100) - Bytes(512) * which;
    CALLGRIND_ZERO_STATS;
    CALLGRIND_TOGGLE_COLLECT;
    Allocate(size);
    CALLGRIND_TOGGLE_COLLECT;
    const std::string label = "miss " + std::to_string(which) + " 1";
    CALLGRIND_DUMP_STATS_AT(label.c_str());
  }
  // Of blocks without a tag.
  void Hits(const std::string& name) {
    Free(Allocate(KiB(4)));
    CALLGRIND_ZERO_STATS;
    CALLGRIND_TOGGLE_COLLECT;
    for (int i = 0; i < kHits; ++i) Free(Allocate(KiB(4)));
    CALLGRIND_TOGGLE_COLLECT;
    const std::string label = "hit " + name + " " + std::to_string(kHits);
    CALLGRIND_DUMP_STATS_AT(label.c_str());
  }
  DeviceAllocator& allocator() { return allocator_; }
  int64_t stitches() const { return allocator_.GetStatistics().num_stitches; }

 private:
  Address Allocate(Bytes size) {
    const absl::StatusOr<Allocation> made = allocator_.Allocate(size, kMain);
    if (!made.ok()) {
      std::fprintf(stderr, "%s\n", made.status().ToString().c_str());
      std::exit(1);
    }
    return made->address;
  }
  void Free(Address address) {
    if (!allocator_.Free(address).ok()) std::exit(1);
  }

  sim::SimulatedDevice gpu_{{.memory = kPageSize * kHandles}};
  UncountedDevice device_{gpu_};
  AddressDirectory directory_;
  DeviceAllocator allocator_{device_, directory_, nullptr};
};

void CountMisses() {
  FullGpu gpu;
  for (int which = 0; which < kMisses; ++which) gpu.Miss(which);
  std::printf("%d stitches\n", static_cast<int>(gpu.stitches()));
}

void CountHits() {
  FullGpu gpu;
  gpu.Hits("alone");
  const auto all = [](Address, uint8_t tag) { return tag == 1; };
  for (const SegmentView& segment : gpu.allocator().inspect().Snapshot()) {
    for (const BlockView& block : segment.blocks) {
      const bool is_live = block.state == BlockView::State::kAllocated;
      if (is_live && !gpu.allocator().sleep().SetTag(block.address, 1).ok()) std::exit(1);
    }
  }
  gpu.Hits("beside tags");
  if (!gpu.allocator().sleep().FallAsleep(all).ok() || !gpu.allocator().sleep().LetGo().ok()) std::exit(1);
  gpu.Hits("beside sleepers");
}

}  // namespace
}  // namespace frugal

int main() {
  frugal::CountMisses();
  frugal::CountHits();
  return 0;
}
