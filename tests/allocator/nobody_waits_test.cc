// Nobody waits for a stranger's driver call: while one thread is inside a call of the driver, all that needs no such
// call is served.

#include <atomic>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/allocator/allocator_fixture.h"
#include "tests/devices/forwarding_device.h"
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

// A full GPU, on whose main stream a worker stitches, over old views in the end, trims and gives idle memory back. It
// takes from the main stream for others while that is busy, has others use its blocks, and trims during a capture. The
// blocks of the main stream lie side by side with those that the test itself gives back.
class NobodyWaits : public testing::TestWithParam<Hold> {
 protected:
  static constexpr Bytes kMemory = MiB(96);

  NobodyWaits() : gpu_({.memory = kMemory, .virtual_memory = GetParam().virtual_memory}) {
    allocator_.settings().SetCheckLevel(CheckLevel::kFull);
    // Three quarters of a page stay free in each of these streams: hits, and never whole pages to take away.
    for (Stream stream : {kMain, kSide}) small_.push_back(Allocate(KiB(500), stream));
    for (int i = 0; i < 9; ++i) {
      workers_.push_back(Allocate(MiB(4), kMain));
      ours_.push_back(Allocate(MiB(4), kMain));
    }
  }

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
    if (GetParam().virtual_memory) gpu_.MakeBusyUntil(kMain, gpu_.now() + sim::Nanoseconds(1'000));
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
    device_.Hold(GetParam().call, nth, failures);
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

class NobodyWaitsForTheFirst : public NobodyWaits {};
TEST_P(NobodyWaitsForTheFirst, CallOfAStranger) {
  EXPECT_TRUE(Run(1, 0)) << "the worker made no such call";
  GiveAllBack();
}

class NobodyWaitsForALater : public NobodyWaits {};
TEST_P(NobodyWaitsForALater, CallOfAStranger) {
  Run(7, 0);
  GiveAllBack();
}

class NobodyWaitsForOne : public NobodyWaits {};
TEST_P(NobodyWaitsForOne, ThatFailsOnce) {
  EXPECT_TRUE(Run(2, 1));
  EXPECT_EQ(device_.failed(), 1);
  GiveAllBack();
}
TEST_P(NobodyWaitsForOne, ThatFailsTheSecondAttemptToo) {
  Run(3, 2);
  GiveAllBack();
}
TEST_P(NobodyWaitsForOne, ThatFailsMidway) {
  Run(10, 4);
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
const auto kName = [](const auto& info) {
  return absl::StrCat(kCallNames[static_cast<int>(info.param.call)], info.param.virtual_memory ? "" : "_of_segments");
};
INSTANTIATE_TEST_SUITE_P(Calls, NobodyWaitsForTheFirst, testing::ValuesIn(kHolds), kName);
INSTANTIATE_TEST_SUITE_P(Calls, NobodyWaitsForALater, testing::ValuesIn(kHolds), kName);
INSTANTIATE_TEST_SUITE_P(Calls, NobodyWaitsForOne, testing::ValuesIn(kHolds), kName);

class ASecondMiss : public testing::Test {
 protected:
  sim::SimulatedDevice gpu_{{.memory = MiB(64)}};
  HoldingDevice device_{gpu_};
  AddressDirectory directory_;
  DeviceAllocator allocator_{device_, directory_, nullptr};
};

TEST_F(ASecondMiss, IsServedByWhatBecameFreeWhileItWaited) {
  const absl::StatusOr<Allocation> block = allocator_.Allocate(MiB(20), kMain);
  ASSERT_TRUE(block.ok());
  device_.Hold(Call::kMap, 1, 0);
  std::thread first([&] { EXPECT_TRUE(allocator_.Allocate(MiB(20), kSide).ok()); });
  ASSERT_TRUE(device_.AwaitHeld());
  // Whether it comes before the block is free or after.
  std::thread second([&] {
    const absl::StatusOr<Allocation> made = allocator_.Allocate(MiB(20), kMain);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->address, block->address);
  });
  EXPECT_TRUE(allocator_.Free(block->address).ok());
  device_.GoOn();
  first.join();
  second.join();
  EXPECT_EQ(allocator_.inspect().Held(), MiB(40)) << "for two blocks of 20 MiB";
}

TEST_F(ASecondMiss, WhoseCallFailsIsServedByWhatBecameFreeMeanwhile) {
  allocator_.settings().SetCheckLevel(CheckLevel::kFull);
  const absl::StatusOr<Allocation> block = allocator_.Allocate(MiB(20), kMain);
  ASSERT_TRUE(block.ok());
  device_.Hold(Call::kMap, 1, 1);
  std::thread failing([&] {
    const absl::StatusOr<Allocation> made = allocator_.Allocate(MiB(20), kMain);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->address, block->address);
  });
  ASSERT_TRUE(device_.AwaitHeld());
  EXPECT_TRUE(allocator_.Free(block->address).ok());
  device_.GoOn();
  failing.join();
  allocator_.inspect().CheckInvariants();
}

TEST_F(ASecondMiss, OfTheSameStreamIsServedBesideTheFirst) {
  device_.Hold(Call::kSetAccess, 1, 0);
  std::vector<Address> blocks(2);
  const auto allocate = [&](size_t which) {
    const absl::StatusOr<Allocation> made = allocator_.Allocate(MiB(20), kMain);
    ASSERT_TRUE(made.ok()) << made.status();
    blocks[which] = made->address;
  };
  std::thread first([&] { allocate(0); });
  ASSERT_TRUE(device_.AwaitHeld());
  std::thread second([&] { allocate(1); });
  device_.GoOn();
  first.join();
  second.join();
  EXPECT_NE(blocks[0], blocks[1]);
  for (Address block : blocks) EXPECT_TRUE(allocator_.Free(block).ok());
  allocator_.inspect().CheckInvariants();
}

// Every call of the device is a moment at which others go on.
class YieldingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

 private:
  absl::Status Before(Call) override {
    std::this_thread::yield();
    return absl::OkStatus();
  }
};

// Threads that write into all of what they got and read it before they give it back, on a GPU whose memory is there to
// be written and faults where nothing is mapped.
class ThreadsOnAFullDevice : public testing::Test {
 protected:
  void Play(uint64_t seed, Stream stream) {
    struct Live {
      Allocation block;
      uint64_t mark;
    };
    std::mt19937_64 random(seed);
    std::vector<Live> live;
    const auto give_back = [&] {
      const size_t which = random() % live.size();
      const Live one = live[which];
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      ForEachMark(one.block, [&](uint64_t& word) { EXPECT_EQ(word, one.mark); });
      EXPECT_TRUE(allocator_.Free(one.block.address).ok());
    };
    for (int step = 0; step < kSteps; ++step) {
      if (live.size() > 12) give_back();
      const bool is_small = random() % 3 == 0;
      const Bytes size(static_cast<int64_t>(random() % static_cast<uint64_t>((is_small ? KiB(700) : MiB(9)).count())) +
                       1);
      const absl::StatusOr<Allocation> made = allocator_.Allocate(size, stream);
      if (made.ok()) {
        const uint64_t mark = random();
        ForEachMark(*made, [&](uint64_t& word) { word = mark; });
        live.push_back({*made, mark});
      } else {
        EXPECT_TRUE(absl::IsResourceExhausted(made.status())) << made.status();
      }
      if (!live.empty() && (!made.ok() || random() % 2 == 0)) give_back();
    }
    while (!live.empty()) give_back();
  }
  template <typename F>
  static void ForEachMark(const Allocation& block, F&& f) {
    for (Bytes at; at < block.size; at += KiB(256)) {
      f(*reinterpret_cast<uint64_t*>((block.address + at).value()));
    }
  }
  void GiveMemoryBack() {
    for (int step = 0; !stop_; ++step) {
      EXPECT_TRUE(allocator_.Trim(MiB(6)).ok());
      EXPECT_TRUE(allocator_.MarkUse().ok());
      EXPECT_TRUE(allocator_.ReturnIdle(MiB(6)).ok());
      allocator_.inspect().CheckInvariants();
      std::this_thread::yield();
    }
  }

  static constexpr int kSteps = 400;
  std::atomic<bool> stop_{false};
  sim::SimulatedDevice gpu_{{.memory = MiB(128), .backing = sim::Backing::kMemory}};
  YieldingDevice device_{gpu_};
  AddressDirectory directory_;
  DeviceAllocator allocator_{device_, directory_, nullptr};
};

TEST_F(ThreadsOnAFullDevice, KeepWhatTheyHave) {
  allocator_.settings().SetCheckLevel(CheckLevel::kFull);
  std::vector<std::thread> threads;
  // Two of one stream, whose blocks lie side by side.
  threads.emplace_back([this] { Play(1, kMain); });
  threads.emplace_back([this] { Play(2, kMain); });
  threads.emplace_back([this] { Play(3, kSide); });
  std::thread giving([this] { GiveMemoryBack(); });
  for (std::thread& thread : threads) thread.join();
  stop_ = true;
  giving.join();
  EXPECT_TRUE(allocator_.Trim().ok());
  EXPECT_EQ(allocator_.inspect().Held(), Bytes(0));
  EXPECT_TRUE(allocator_.inspect().Health().ok());
}

}  // namespace
}  // namespace frugal
