// Nobody waits for a stranger's driver call: while one thread is inside a call of the driver, all that needs no such
// call is served.

#include <ostream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/holding_device.h"

namespace frugal {
namespace {

constexpr Stream kThird{3};
constexpr Stream kFourth{4};

struct Hold {
  Call call;
  bool virtual_memory;

  friend void PrintTo(const Hold& hold, std::ostream* stream) { *stream << kCallNames[static_cast<int>(hold.call)]; }
};

// Which of its calls the worker is held in, and how many fail from there on.
struct HeldCall {
  const char* name;
  int nth;
  int failures;

  friend void PrintTo(const HeldCall& call, std::ostream* stream) { *stream << call.name; }
};

// A full GPU, on whose main stream a worker stitches, over old views in the end, trims and gives idle memory back. It
// takes from the main stream for others while that is busy, has others use its blocks, and trims during a capture. The
// blocks of the main stream lie side by side with those that the test itself gives back.
class NobodyWaits : public testing::TestWithParam<std::tuple<Hold, HeldCall>> {
 protected:
  static constexpr Bytes kMemory = MiB(96);

  NobodyWaits() : gpu_({.memory = kMemory, .virtual_memory = hold().virtual_memory}) {
    allocator_.settings().SetCheckLevel(CheckLevel::kFull);
    // Three quarters of a page stay free in each of these streams: hits, and never whole pages to take away.
    for (Stream stream : {kMain, kSide}) small_.push_back(Allocate(KiB(350), stream));
    for (int i = 0; i < 9; ++i) {
      workers_.push_back(Allocate(MiB(4), kMain));
      ours_.push_back(Allocate(MiB(4), kMain));
    }
  }

  static const Hold& hold() { return std::get<0>(GetParam()); }
  Address Allocate(Bytes size, Stream stream) {
    const absl::StatusOr<Allocation> made = allocator_.Allocate(size, stream);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->address : Address();
  }
  void Free(Address address) { EXPECT_TRUE(allocator_.Free(address).ok()); }

  // What the worker does. The driver may fail it, never anything else.
  void Work() {
    for (int round = 0; round < 12; ++round) {
      for (Address block : std::exchange(workers_, {})) Free(block);
      for (Bytes size : {MiB(10 + 2 * (round % 3)), MiB(6), MiB(14)}) Try(size);
      for (Address block : std::exchange(workers_, {})) Free(block);
      if (round % 4 == 3) Expect(allocator_.Trim(MiB(8)).status());
      Expect(allocator_.MarkUse());
      if (round % 3 == 2) Expect(allocator_.ReturnIdle(MiB(4)).status());
      for (int i = 0; i < 6; ++i) Try(MiB(4));
      UseStreams(round);
    }
    Expect(allocator_.Trim().status());
  }
  void UseStreams(int round) {
    for (Address block : std::exchange(workers_, {})) {
      Expect(allocator_.RecordStream(block, kThird));
      Free(block);
    }
    if (hold().virtual_memory) gpu_.MakeBusyUntil(kMain, gpu_.now() + sim::Nanoseconds(1'000));
    Try(MiB(4));
    for (Address block : std::exchange(workers_, {})) Free(block);
    Try(MiB(20), kFourth);
    Try(KiB(300), kFourth);
    if (round % 4 != 1) return;
    gpu_.BeginCapture(kFourth);
    Expect(allocator_.Trim().status());
    gpu_.EndCapture(kFourth);
  }
  void Try(Bytes size, Stream stream = kMain) {
    const absl::StatusOr<Allocation> made = allocator_.Allocate(size, stream);
    Expect(made.status());
    if (made.ok()) workers_.push_back(made->address);
  }
  static void Expect(const absl::Status& status) {
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status) || absl::IsInternal(status)) << status;
  }

  // None of these may need the call that the worker is in.
  void Hit() {
    for (Stream stream : {kMain, kSide}) {
      const Address block = Allocate(KiB(300), stream);
      EXPECT_TRUE(allocator_.RecordStream(block, kThird).ok());
      EXPECT_EQ(allocator_.inspect().StreamsOf(block).size(), 2u);
      EXPECT_TRUE(allocator_.inspect().FindBlock(block + KiB(4)).has_value());
      EXPECT_TRUE(allocator_.inspect().FindSegment(block).has_value());
      Free(block);
    }
    // Beside what the worker takes and fills.
    if (!ours_.empty()) Free(ours_.back());
    if (!ours_.empty()) ours_.pop_back();
    Bytes segments;
    for (const SegmentView& segment : allocator_.inspect().Snapshot()) segments += segment.size;
    EXPECT_LE(segments, kMemory);
    EXPECT_GT(allocator_.GetStatistics().allocation[SizeGroup::kAll].current, 0);
    EXPECT_LE(allocator_.inspect().Held(), kMemory);
    EXPECT_EQ(allocator_.settings().limit().most(), kUnlimited);
    EXPECT_TRUE(allocator_.MarkUse().ok());
    EXPECT_TRUE(allocator_.inspect().Health().ok());
    allocator_.inspect().CheckInvariants();
  }

  // Returns whether the worker made so many of those calls.
  bool Run(int nth, int failures) {
    device_.Hold(hold().call, nth, failures);
    std::thread worker([this] {
      Work();
      device_.End();
    });
    const bool is_held = device_.AwaitHeld();
    if (is_held) {
      Hit();
      device_.GoOn();
    }
    worker.join();
    allocator_.inspect().CheckInvariants();
    return is_held;
  }

  void GiveAllBack() {
    for (auto* blocks : {&workers_, &ours_, &small_}) {
      for (Address block : std::exchange(*blocks, {})) Free(block);
    }
    EXPECT_TRUE(allocator_.Trim().ok());
    EXPECT_EQ(allocator_.inspect().Held(), Bytes(0));
    EXPECT_EQ(gpu_.used(), Bytes(0));
    allocator_.inspect().CheckInvariants();
  }

  sim::SimulatedDevice gpu_;
  HoldingDevice device_{gpu_};
  AddressDirectory directory_;
  DeviceAllocator allocator_{device_, directory_, nullptr};
  std::vector<Address> small_;
  std::vector<Address> ours_;
  std::vector<Address> workers_;
};

TEST_P(NobodyWaits, ForACallOfAStranger) {
  const HeldCall& run = std::get<1>(GetParam());
  const bool is_held = Run(run.nth, run.failures);
  EXPECT_TRUE(is_held || run.nth > 2) << "the worker made no such call";
  if (run.nth == 2) {
    EXPECT_EQ(device_.failed(), 1);
  }
  GiveAllBack();
}

constexpr Hold kHolds[] = {{Call::kMemoryInfo, true},
                           {Call::kReserve, true},
                           {Call::kCreate, true},
                           {Call::kRelease, true},
                           {Call::kMap, true},
                           {Call::kSetAccess, true},
                           {Call::kUnmap, true},
                           {Call::kRecord, true},
                           {Call::kHasPassed, true},
                           {Call::kStreamWait, true},
                           {Call::kSynchronize, true},
                           {Call::kSynchronizeAll, true},
                           {Call::kMalloc, false},
                           {Call::kFree, false},
                           {Call::kRecord, false},
                           {Call::kHasPassed, false},
                           {Call::kSynchronizeAll, false}};
constexpr HeldCall kHeldCalls[] = {{"the_first", 1, 0},
                                   {"a_later_one", 7, 0},
                                   {"one_that_fails_once", 2, 1},
                                   {"one_that_fails_the_second_attempt_too", 3, 2},
                                   {"one_that_fails_midway", 10, 4}};
INSTANTIATE_TEST_SUITE_P(Calls, NobodyWaits, testing::Combine(testing::ValuesIn(kHolds), testing::ValuesIn(kHeldCalls)),
                         [](const auto& info) {
                           const Hold& hold = std::get<0>(info.param);
                           return absl::StrCat(kCallNames[static_cast<int>(hold.call)],
                                               hold.virtual_memory ? "_" : "_of_segments_",
                                               std::get<1>(info.param).name);
                         });

using ASecondMiss = AllocatorBehind<HoldingDevice>;

TEST_F(ASecondMiss, IsServedByWhatBecameFreeWhileItWaited) {
  const Address block = Allocate(MiB(20));
  between_.Hold(Call::kMap, 1, 0);
  std::thread first([&] { EXPECT_TRUE(allocator_->Allocate(MiB(20), kSide).ok()); });
  ASSERT_TRUE(between_.AwaitHeld());
  // Whether it comes before the block is free or after.
  std::thread second([&] {
    const absl::StatusOr<Allocation> made = allocator_->Allocate(MiB(20), kMain);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->address, block);
  });
  EXPECT_TRUE(allocator_->Free(block).ok());
  between_.GoOn();
  first.join();
  second.join();
  EXPECT_EQ(Held(), MiB(40)) << "for two blocks of 20 MiB";
}

TEST_F(ASecondMiss, WhoseCallFailsIsServedByWhatBecameFreeMeanwhile) {
  allocator_->settings().SetCheckLevel(CheckLevel::kFull);
  const Address block = Allocate(MiB(20));
  between_.Hold(Call::kMap, 1, 1);
  std::thread failing([&] {
    const absl::StatusOr<Allocation> made = allocator_->Allocate(MiB(20), kMain);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->address, block);
  });
  ASSERT_TRUE(between_.AwaitHeld());
  EXPECT_TRUE(allocator_->Free(block).ok());
  between_.GoOn();
  failing.join();
  allocator_->inspect().CheckInvariants();
}

TEST_F(ASecondMiss, OfTheSameStreamIsServedBesideTheFirst) {
  between_.Hold(Call::kSetAccess, 1, 0);
  std::vector<Address> blocks(2);
  const auto allocate = [&](size_t which) {
    const absl::StatusOr<Allocation> made = allocator_->Allocate(MiB(20), kMain);
    ASSERT_TRUE(made.ok()) << made.status();
    blocks[which] = made->address;
  };
  std::thread first([&] { allocate(0); });
  ASSERT_TRUE(between_.AwaitHeld());
  std::thread second([&] { allocate(1); });
  between_.GoOn();
  first.join();
  second.join();
  EXPECT_NE(blocks[0], blocks[1]);
  for (Address block : blocks) EXPECT_TRUE(allocator_->Free(block).ok());
  allocator_->inspect().CheckInvariants();
}

}  // namespace
}  // namespace frugal
