// A DeviceAllocator over a simulated GPU, with the shorthands that its tests share.

#pragma once

#include <memory>
#include <vector>

#include "allocator/device_allocator.h"
#include "gtest/gtest.h"
#include "simulated_gpu/machine/simulated_device.h"

namespace frugal {

inline constexpr Stream kMain{1};
inline constexpr Stream kSide{2};

class RecordingObserver : public Observer {
 public:
  void OnMemoryEvent(const MemoryEvent& event) override { events.push_back(event); }
  void DropAnnotation(void* annotation) override { dropped.push_back(annotation); }
  std::vector<MemoryEvent::Kind> kinds() const {
    std::vector<MemoryEvent::Kind> kinds;
    for (const MemoryEvent& event : events) kinds.push_back(event.kind);
    return kinds;
  }
  std::vector<MemoryEvent> events;
  std::vector<void*> dropped;
};

class AllocatorTest : public testing::Test {
 protected:
  using CallKind = sim::CallKind;

  explicit AllocatorTest(Bytes memory = MiB(64), bool virtual_memory = true, Reclaimer* reclaimer = nullptr)
      : AllocatorTest(sim::SimulatedDevice::Options{.memory = memory, .virtual_memory = virtual_memory}, reclaimer) {}
  AllocatorTest(const sim::SimulatedDevice::Options& gpu, Reclaimer* reclaimer)
      : device_(gpu), allocator_(std::make_unique<DeviceAllocator>(device_, directory_, reclaimer)) {}

  Address Allocate(Bytes size, Stream stream = kMain) {
    absl::StatusOr<Allocation> allocation = allocator_->Allocate(size, stream);
    EXPECT_TRUE(allocation.ok()) << allocation.status();
    allocator_->inspect().CheckInvariants();
    return allocation.ok() ? allocation->address : Address();
  }
  absl::StatusOr<Allocation> TryFrom(MemorySource source, Bytes size, Stream stream = kMain) {
    absl::StatusOr<Allocation> made = allocator_->AllocateFrom(source, size, stream);
    allocator_->inspect().CheckInvariants();
    return made;
  }
  Address AllocateFrom(MemorySource source, Bytes size, Stream stream = kMain) {
    const absl::StatusOr<Allocation> made = TryFrom(source, size, stream);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->address : Address();
  }
  void Free(Address address) {
    EXPECT_TRUE(allocator_->Free(address).ok());
    allocator_->inspect().CheckInvariants();
  }
  bool IsOutOfMemory(Bytes size, Stream stream = kMain) {
    const bool exhausted = absl::IsResourceExhausted(allocator_->Allocate(size, stream).status());
    allocator_->inspect().CheckInvariants();
    return exhausted;
  }
  Bytes Trim(Bytes enough = kUnlimited) { return Returned(allocator_->Trim(enough)); }
  Bytes ReturnPassed(Bytes enough = kUnlimited) { return Returned(allocator_->ReturnPassed(enough)); }
  Bytes ReturnIdle(Bytes enough = kUnlimited) { return Returned(allocator_->ReturnIdle(enough)); }
  Bytes Returned(const absl::StatusOr<Bytes>& returned) {
    EXPECT_TRUE(returned.ok()) << returned.status();
    allocator_->inspect().CheckInvariants();
    return returned.value_or(Bytes(-1));
  }
  Bytes Held() const { return allocator_->inspect().Held(); }

  // --- Blocks that sleep.

  using Ranges = std::vector<Sleep::Range>;

  static bool All(Address /*address*/, uint8_t /*tag*/) { return true; }
  Sleep sleep() { return allocator_->sleep(); }
  Ranges FallAsleep(Sleep::Choice chosen = All) { return RangesOf(sleep().FallAsleep(chosen)); }
  Bytes LetGo() { return Returned(sleep().LetGo()); }
  Ranges PutToSleep(Sleep::Choice chosen = All) {
    Ranges ranges = FallAsleep(chosen);
    LetGo();
    return ranges;
  }
  Ranges TakeBack(Sleep::Choice chosen = All) { return RangesOf(sleep().TakeBack(chosen)); }
  Ranges Wake(Sleep::Choice chosen = All) {
    Ranges ranges = TakeBack(chosen);
    EXPECT_TRUE(sleep().WakeUp(chosen).ok());
    allocator_->inspect().CheckInvariants();
    return ranges;
  }
  Ranges RangesOf(const absl::StatusOr<Ranges>& ranges) {
    EXPECT_TRUE(ranges.ok()) << ranges.status();
    allocator_->inspect().CheckInvariants();
    return ranges.value_or(Ranges());
  }

  void MarkUse() { EXPECT_TRUE(allocator_->MarkUse().ok()); }
  // Stitches of 3, 4, 5 … pages out of what a stream frees leave old views, which later ones have to go over.
  void LeaveOldViews(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      std::vector<Address> blocks;
      for (int i = 0; i < 10; ++i) blocks.push_back(Allocate(MiB(4)));
      for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
      const Address joined = Allocate(MiB(6 + 2 * (round % 7)));
      for (size_t i = 1; i < blocks.size(); i += 2) Free(blocks[i]);
      Free(joined);
    }
  }
  // As work that was launched on `stream` at `address` and takes until `time`.
  void UseOn(Address address, Stream stream, int64_t time) {
    EXPECT_TRUE(allocator_->RecordStream(address, stream).ok());
    MakeBusyUntil(stream, time);
  }
  void MakeBusyUntil(Stream stream, int64_t time) { device_.MakeBusyUntil(stream, sim::Nanoseconds(time)); }
  void AdvanceTo(int64_t time) { device_.AdvanceTo(sim::Nanoseconds(time)); }
  int64_t now() const { return device_.now().count(); }
  int64_t driver_time() const { return device_.driver_time().count(); }

  Statistics statistics() const { return allocator_->GetStatistics(); }
  template <typename Figure>
  int64_t all(const Figure& figure) const {
    return figure[SizeGroup::kAll].current;
  }
  uint64_t calls(CallKind kind) const { return device_.calls(kind); }

  sim::SimulatedDevice device_;
  AddressDirectory directory_;
  std::unique_ptr<DeviceAllocator> allocator_;
};

// With a device between the allocator and the simulated GPU.
template <typename Between>
class AllocatorBehind : public AllocatorTest {
 protected:
  explicit AllocatorBehind(Bytes memory = MiB(64)) : AllocatorTest(memory) {
    allocator_ = std::make_unique<DeviceAllocator>(between_, directory_, nullptr);
  }
  // Before its device.
  ~AllocatorBehind() override { allocator_.reset(); }

  Between between_{device_};
};

}  // namespace frugal
