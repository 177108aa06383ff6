// Random work against a shadow of what must be true: no two blocks in use overlap, nothing is lost, and the books
// add up after every call.

#include <map>
#include <random>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

class Shadow : public testing::TestWithParam<int> {
 protected:
  Shadow() : device_({.memory = MiB(48), .virtual_memory = GetParam() % 2 == 0}), random_(GetParam()) {
    allocator_ = std::make_unique<DeviceAllocator>(device_, directory_, nullptr);
  }

  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  Bytes DrawSize() { return Draw(0, 2) == 0 ? Bytes(Draw(1, 300'000)) : Bytes(Draw(1, 9'000'000)); }

  void ExpectNoOverlap(Address start, Bytes size) {
    auto after = live_.lower_bound(start);
    EXPECT_TRUE(after == live_.end() || start + size <= after->first);
    EXPECT_TRUE(after == live_.begin() || std::prev(after)->first + std::prev(after)->second <= start);
  }

  void Allocate() {
    const Stream stream{static_cast<uint64_t>(Draw(1, 3))};
    absl::StatusOr<Allocation> allocation = allocator_->Allocate(DrawSize(), stream);
    if (!allocation.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(allocation.status())) << allocation.status();
      return;
    }
    ExpectNoOverlap(allocation->address, allocation->size);
    live_[allocation->address] = allocation->size;
  }

  std::map<Address, Bytes>::iterator Any() { return std::next(live_.begin(), Draw(0, std::ssize(live_) - 1)); }

  void Step() {
    device_.AdvanceTo(device_.now() + sim::Nanoseconds(Draw(0, 20)));
    const int64_t choice = Draw(0, 99);
    if (live_.empty() || choice < 48) {
      Allocate();
    } else if (choice < 60) {
      auto block = Any();
      const Stream stream{static_cast<uint64_t>(Draw(1, 3))};
      device_.MakeBusyUntil(stream, device_.now() + sim::Nanoseconds(Draw(0, 400)));
      EXPECT_TRUE(allocator_->RecordStream(block->first, stream).ok());
    } else if (choice < 99) {
      auto block = Any();
      EXPECT_TRUE(allocator_->Free(block->first).ok());
      live_.erase(block);
    } else {
      EXPECT_TRUE(allocator_->Trim().ok());
    }
    allocator_->CheckInvariants();
  }

  sim::SimulatedDevice device_;
  AddressDirectory directory_;
  std::unique_ptr<DeviceAllocator> allocator_;
  std::mt19937_64 random_;
  std::map<Address, Bytes> live_;
};

TEST_P(Shadow, NothingOverlapsAndTheBooksAddUp) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  for (int step = 0; step < 3000 && !HasFailure(); ++step) Step();
  int64_t live = 0;
  for (const auto& [address, size] : live_) live += size.count();
  EXPECT_EQ(allocator_->GetStatistics().allocated_bytes[SizeGroup::kAll].current, live);
  for (const auto& [address, size] : live_) EXPECT_TRUE(allocator_->Free(address).ok());
  EXPECT_TRUE(allocator_->Trim().ok());
  EXPECT_EQ(device_.used(), Bytes(0));
}

INSTANTIATE_TEST_SUITE_P(Seeds, Shadow, testing::Range(0, 12));

}  // namespace
}  // namespace frugal
