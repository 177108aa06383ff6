// An invariant that does not hold ends the use of the allocator, not the program.

#include <memory>
#include <utility>

#include "allocator/check.h"
#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/forwarding_device.h"

namespace frugal {
namespace {

// A driver that hands out the first range twice, so that blocks would share their addresses.
class RepeatingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  void Repeat() { repeats_ = true; }

  absl::StatusOr<Address> Reserve(Bytes size) override {
    if (repeats_) return first_;
    absl::StatusOr<Address> range = ForwardingDevice::Reserve(size);
    if (first_ == Address() && range.ok()) first_ = *range;
    return range;
  }

 private:
  Address first_;
  bool repeats_ = false;
};

// What the allocator leaves behind once it is broken stays, here as in a program.
struct Broken {
  sim::SimulatedDevice device{{.memory = MiB(64)}};
  RepeatingDevice repeating{device};
  AddressDirectory directory;
  DeviceAllocator allocator{repeating, directory, nullptr};
  Address held;
};

Broken& BreakOne() {
  ThrowFromFailedChecks();
  static auto& all = *new std::vector<std::unique_ptr<Broken>>;
  all.push_back(std::make_unique<Broken>());
  Broken& broken = *all.back();
  broken.held = broken.allocator.Allocate(MiB(8), kMain)->address;
  broken.repeating.Repeat();
  EXPECT_TRUE(absl::IsDataLoss(broken.allocator.Allocate(MiB(8), kSide).status()));
  return broken;
}

TEST(BrokenInvariant, IsNamedToWhoeverAllocatesFromThenOn) {
  Broken& broken = BreakOne();
  const absl::Status status = broken.allocator.Allocate(KiB(1), kMain).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_NE(status.message().find("address_directory.cc"), absl::string_view::npos) << status;
  EXPECT_EQ(broken.allocator.Health(), status);
}

TEST(BrokenInvariant, LeavesWhatWasHandedOutMappedAndCounted) {
  Broken& broken = BreakOne();
  const Bytes used = broken.device.used();
  const int64_t allocated = broken.allocator.GetStatistics().allocated_bytes[SizeGroup::kAll].current;
  EXPECT_EQ(allocated, MiB(8).count());
  EXPECT_TRUE(broken.allocator.Free(broken.held).ok()) << "a deleter has nobody to tell";
  EXPECT_TRUE(broken.allocator.RecordStream(broken.held, kSide).ok());
  EXPECT_FALSE(broken.allocator.Trim().ok());
  EXPECT_FALSE(broken.allocator.ReturnIdle(kUnlimited).ok());
  EXPECT_EQ(broken.device.used(), used) << "nothing goes back to the device, whoever may still use it";
  EXPECT_EQ(broken.directory.Find(broken.held), &broken.allocator);
}

TEST(BrokenInvariant, MakesTheBooksUnreadable) {
  Broken& broken = BreakOne();
  EXPECT_TRUE(broken.allocator.Snapshot().empty());
  EXPECT_FALSE(broken.allocator.FindBlock(broken.held).has_value());
  EXPECT_FALSE(broken.allocator.FindSegment(broken.held).has_value());
  EXPECT_TRUE(broken.allocator.StreamsOf(broken.held).empty());
}

TEST(BrokenInvariant, OfABlocksNeighboursIsFoundWhenTheBlockIsTouched) {
  BlockFactory blocks;
  Block* first = blocks.Make(nullptr, Address(4096), KiB(1), BlockState::kFree);
  Block* second = blocks.Make(nullptr, first->end(), KiB(1), BlockState::kAllocated);
  first->next = second;
  second->previous = first;
  EXPECT_TRUE(first->FitsItsNeighbours());
  EXPECT_TRUE(second->FitsItsNeighbours());
  first->size = KiB(2);
  EXPECT_FALSE(first->FitsItsNeighbours());
  EXPECT_FALSE(second->FitsItsNeighbours());
}

}  // namespace
}  // namespace frugal
