// Stream order with threads that share streams, on a GPU that says whether an access came too early, while some of its
// calls fail. Its memory is there to be written, and faults where nothing is mapped: what a thread has written into its
// blocks is there until it gives them back.

#include <atomic>
#include <cstdint>
#include <ostream>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "allocator/device_allocator.h"
#include "gtest/gtest.h"
#include "simulated_gpu/machine/simulated_device.h"
#include "tests/devices/forwarding_device.h"
#include "tests/environment.h"

namespace frugal {
namespace {

// Every call is a moment at which other threads go on, and so many in a thousand fail.
class FlakyDevice final : public ForwardingDevice {
 public:
  FlakyDevice(Device& device, int failures_in_1000) : ForwardingDevice(device), failures_in_1000_(failures_in_1000) {}

  void FailNoMore() { fails_ = false; }

 private:
  absl::Status Before(Call) override {
    thread_local std::mt19937_64 random(1);
    if (random() % 2 == 0) std::this_thread::yield();
    if (!fails_ || static_cast<int>(random() % 1000) >= failures_in_1000_) return absl::OkStatus();
    return absl::InternalError("the driver fails");
  }

  const int failures_in_1000_;
  std::atomic<bool> fails_{true};
};

// The parameter: how many of 1,000 calls fail.
class ThreadsInOrder : public testing::TestWithParam<int> {
 protected:
  static constexpr int kSteps = 200;

  struct Live {
    Allocation block;
    uint64_t mark;  // which it bears
  };

  struct Round {
    explicit Round(int failures_in_1000) : device(gpu, failures_in_1000) {
      allocator.settings().SetCheckLevel(CheckLevel::kFull);
    }

    // A thread's work on `stream`. Streams 10 to 12, one of which the program may destroy, use some of its blocks.
    void Play(uint64_t seed, Stream stream);
    void GiveBackOne(std::mt19937_64& random, Stream stream, std::vector<Live>& live);
    // Until `stop`.
    void GiveMemoryBack();

    sim::SimulatedDevice gpu{{.memory = MiB(192), .backing = sim::Backing::kMemory, .order = true}};
    FlakyDevice device;
    AddressDirectory directory;
    DeviceAllocator allocator{device, directory, nullptr};
    std::atomic<bool> stop{false};
  };
};

template <typename Visit>
void ForEachMark(const Allocation& block, Visit visit) {
  for (Bytes at; at < block.size; at += KiB(256)) visit(*reinterpret_cast<uint64_t*>((block.address + at).value()));
}

void ThreadsInOrder::Round::GiveBackOne(std::mt19937_64& random, Stream stream, std::vector<Live>& live) {
  const size_t which = random() % live.size();
  const auto [one, mark] = live[which];
  live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
  ForEachMark(one, [mark = mark](uint64_t& word) { EXPECT_EQ(word, mark); });
  gpu.Touch(stream, one.address, one.size, random() % 2 == 0, "own");
  if (random() % 3 == 0) {
    const uint64_t number = random() % 3;
    const Stream other{10 + number, 0, number == 0 ? uint64_t{7} : 0};
    gpu.Order(other, stream);
    gpu.Touch(other, one.address, one.size, true, "other");
    EXPECT_TRUE(allocator.RecordStream(one.address, other).ok());
  }
  EXPECT_TRUE(allocator.Free(one.address).ok());
}

void ThreadsInOrder::Round::Play(uint64_t seed, Stream stream) {
  std::mt19937_64 random(seed);
  std::vector<Live> live;
  for (int step = 0; step < kSteps; ++step) {
    if (live.size() > 9) GiveBackOne(random, stream, live);
    const Bytes most = random() % 3 == 0 ? KiB(700) : MiB(19);
    const Bytes size(static_cast<int64_t>(random() % static_cast<uint64_t>(most.count())) + 1);
    const absl::StatusOr<Allocation> made = allocator.Allocate(size, stream);
    if (made.ok()) {
      gpu.Touch(stream, made->address, made->size, true, "first");
      const uint64_t mark = random();
      ForEachMark(*made, [mark](uint64_t& word) { word = mark; });
      live.push_back({*made, mark});
    }
    if (!live.empty() && (!made.ok() || random() % 2 == 0)) GiveBackOne(random, stream, live);
    if (random() % 10 == 0) gpu.MakeBusyUntil(stream, gpu.now() + sim::Nanoseconds(1'000));
    if (random() % 20 == 0) gpu.AdvanceTo(gpu.now() + sim::Nanoseconds(300));
  }
  while (!live.empty()) GiveBackOne(random, stream, live);
}

void ThreadsInOrder::Round::GiveMemoryBack() {
  for (int step = 0; !stop; ++step) {
    if (step % 3 == 0) static_cast<void>(allocator.Trim(MiB(6)));
    if (step % 3 == 1) static_cast<void>(allocator.MarkUse());
    if (step % 3 == 2) static_cast<void>(allocator.ReturnIdle(MiB(6)));
    std::this_thread::yield();
  }
}

TEST_P(ThreadsInOrder, NoAccessComesTooEarlyAndNothingIsLost) {
  const int rounds = static_cast<int>(FromEnvironment("FRUGAL_ORDER_ROUNDS", 4));
  int64_t stitches = 0;
  for (int number = 0; number < rounds; ++number) {
    Round round(GetParam());
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * 100'000 + static_cast<uint64_t>(number) * 10;
    std::vector<std::thread> threads;
    for (const Stream stream : {Stream{1}, Stream{1}, Stream{2}, Stream{20, 0, 7}}) {
      threads.emplace_back([&round, stream, at = seed + threads.size()] { round.Play(at, stream); });
    }
    std::thread giving([&round] { round.GiveMemoryBack(); });
    for (std::thread& thread : threads) thread.join();
    round.stop = true;
    giving.join();
    round.device.FailNoMore();
    ASSERT_EQ(round.gpu.order_violations(), 0u) << "seed " << seed;
    // What a call that failed has left over goes with the next.
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(round.allocator.Trim().ok());
    EXPECT_EQ(round.allocator.inspect().Held(), Bytes(0)) << "seed " << seed;
    EXPECT_TRUE(round.allocator.inspect().Health().ok()) << round.allocator.inspect().Health();
    stitches += round.allocator.GetStatistics().num_stitches;
  }
  EXPECT_GT(stitches, 0);
}
INSTANTIATE_TEST_SUITE_P(CallsThatFail, ThreadsInOrder, testing::Values(0, 10, 60));

}  // namespace
}  // namespace frugal
