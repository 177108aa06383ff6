// A loop that repeats itself: what its first turns built serves the later ones without a driver call.

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

struct Call {
  int tensor;
  Bytes size;  // 0: freed
  Stream stream;
};

// Tensors of random sizes and lifetimes, all freed at the end.
std::vector<Call> DrawTurn(std::mt19937_64& random, int streams) {
  std::vector<Call> calls;
  std::vector<int> live;
  std::uniform_real_distribution<double> doublings(0, 9);
  for (int i = 0; i < 240; ++i) {
    const bool fills = i < 160 ? random() % 100 < 54 : random() % 100 < 35;
    if (live.size() < 2 || fills) {
      const auto size = static_cast<int64_t>(100'000 * std::exp2(doublings(random)));
      calls.push_back({i, Bytes(size), Stream{1 + random() % static_cast<uint64_t>(streams)}});
      live.push_back(i);
    } else {
      const size_t which = random() % live.size();
      calls.push_back({live[which], Bytes(0), Stream{}});
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  for (int tensor : live) calls.push_back({tensor, Bytes(0), Stream{}});
  return calls;
}

// A loop over what stays between its turns, with holes in it.
class Loop {
 public:
  Loop(uint64_t seed, int streams, Bytes memory = GiB(4)) : device_({.memory = memory}), random_(seed) {
    std::vector<Address> passing;
    for (int i = 0; i < 40; ++i) {
      const Bytes size(static_cast<int64_t>(100'000 + random_() % 20'000'000));
      const Address made = allocator_.Allocate(size, Stream{1 + random_() % static_cast<uint64_t>(streams)})->address;
      if (i % 3 != 0) passing.push_back(made);
    }
    for (Address one : passing) EXPECT_TRUE(allocator_.Free(one).ok());
    turn_ = DrawTurn(random_, streams);
  }

  // Returns how many driver calls that concern memory the turn took.
  uint64_t PlayTurn() {
    const uint64_t before = MemoryCalls();
    std::map<int, Address> tensors;
    for (const Call& call : turn_) {
      if (call.size > Bytes(0)) {
        absl::StatusOr<Allocation> made = allocator_.Allocate(call.size, call.stream);
        EXPECT_TRUE(made.ok()) << made.status();
        tensors[call.tensor] = made->address;
      } else {
        EXPECT_TRUE(allocator_.Free(tensors[call.tensor]).ok());
      }
    }
    allocator_.inspect().CheckInvariants();
    return MemoryCalls() - before;
  }
  int64_t stitches() const { return allocator_.GetStatistics().num_stitches; }

 private:
  uint64_t MemoryCalls() const {
    uint64_t calls = 0;
    for (auto kind : {sim::CallKind::kCreate, sim::CallKind::kMap, sim::CallKind::kSetAccess, sim::CallKind::kUnmap,
                      sim::CallKind::kRelease}) {
      calls += device_.calls(kind);
    }
    return calls;
  }

  sim::SimulatedDevice device_;
  AddressDirectory directory_;
  DeviceAllocator allocator_{device_, directory_, nullptr};
  std::mt19937_64 random_;
  std::vector<Call> turn_;
};

struct Loops {
  const char* name;
  int streams;
  Bytes memory;
  std::vector<uint64_t> seeds;
};

class SteadyState : public testing::TestWithParam<Loops> {};

TEST_P(SteadyState, MakesNoDriverCallAfterTheTurnThatFollowsItsGrowth) {
  int64_t stitches = 0;
  for (uint64_t seed : GetParam().seeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Loop loop(seed, GetParam().streams, GetParam().memory);
    const int64_t before = loop.stitches();
    for (int turn = 1; turn <= 3; ++turn) loop.PlayTurn();
    stitches += loop.stitches() - before;
    for (int turn = 4; turn <= 7; ++turn) EXPECT_EQ(loop.PlayTurn(), 0u) << "turn " << turn;
  }
  EXPECT_TRUE(GetParam().memory > GiB(2) || stitches > 0) << "nothing had to be stitched: the loops prove nothing";
}

// Where less of the device is left, what a loop lacks is worth less than new memory costs.
INSTANTIATE_TEST_SUITE_P(OfLoops, SteadyState,
                         testing::Values(Loops{"on_one_stream", 1, GiB(4), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
                                         Loops{"that_remap", 1, GiB(2), {1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12}},
                                         Loops{"on_four_streams", 4, GiB(4), {1, 2, 3, 7, 8, 11, 12}}),
                         [](const auto& info) { return info.param.name; });

// A turn that still takes a handle more than the one before moves what comes after it.
TEST(SteadyStates, AreReachedByEveryLoop) {
  for (int streams : {1, 4}) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << streams << " streams");
      Loop loop(seed, streams);
      for (int turn = 1; turn <= 7; ++turn) loop.PlayTurn();
      EXPECT_EQ(loop.PlayTurn(), 0u);
    }
  }
}

// The lender has memory left: it gets none back.
TEST(SteadyStates, OfStreamsThatHoldABlockEachNeedNoStitch) {
  sim::SimulatedDevice device({.memory = GiB(1)});
  AddressDirectory directory;
  DeviceAllocator allocator(device, directory, nullptr);
  std::mt19937_64 random(1);
  std::map<uint64_t, Address> blocks;
  const auto play = [&] {
    const uint64_t stream = 1 + random() % 4;
    auto block = blocks.find(stream);
    if (block == blocks.end()) {
      blocks[stream] = allocator.Allocate(MiB(16), Stream{stream})->address;
    } else {
      EXPECT_TRUE(allocator.Free(block->second).ok());
      blocks.erase(block);
    }
  };
  for (int i = 0; i < 20'000; ++i) play();
  const int64_t stitches = allocator.GetStatistics().num_stitches;
  const uint64_t records = device.calls(sim::CallKind::kEventRecord);
  for (int i = 0; i < 1'000; ++i) play();
  EXPECT_EQ(allocator.GetStatistics().num_stitches, stitches);
  EXPECT_EQ(device.calls(sim::CallKind::kEventRecord), records);
  EXPECT_EQ(allocator.GetStatistics().reserved_bytes[SizeGroup::kAll].current, MiB(64).count());
}

class Guests : public AllocatorTest {
 protected:
  Guests() : AllocatorTest(MiB(32)) {}

  // Fills the device, and leaves every second page of `kMain` free.
  void LeaveEverySecondPageFree() {
    std::vector<Address> pages;
    for (int i = 0; i < 16; ++i) pages.push_back(Allocate(MiB(2)));
    for (size_t i = 0; i < pages.size(); i += 2) Free(pages[i]);
    first_hole_ = pages[0];
  }

  Address first_hole_;
};

TEST_F(Guests, GoHomeWhenTheyAreFree) {
  LeaveEverySecondPageFree();
  Free(Allocate(MiB(16)));
  const uint64_t maps = calls(CallKind::kMap);
  EXPECT_EQ(Allocate(MiB(2)), first_hole_);
  EXPECT_EQ(calls(CallKind::kMap), maps);
}

TEST_F(Guests, AreLentTheSameWayAgainWithoutADriverCall) {
  LeaveEverySecondPageFree();
  const Address stitched = Allocate(MiB(16));
  Free(stitched);
  const int64_t time = driver_time();
  EXPECT_EQ(Allocate(MiB(16)), stitched);
  EXPECT_EQ(driver_time(), time);
}

TEST_F(Guests, GoHomeToAnotherStreamOnlyAfterTheirHostHasPassed) {
  LeaveEverySecondPageFree();
  const Address lent = Allocate(MiB(16), kSide);
  MakeBusyUntil(kSide, 100);
  Free(lent);
  // Behind a stream wait it can be had at once; without one it is not handed out.
  const int64_t waits = statistics().num_stream_waits;
  Allocate(MiB(16), kMain);
  EXPECT_EQ(statistics().num_stream_waits, waits + 1);
}

TEST_F(Guests, WhoseHostHasPassedGoHomeWithoutAStreamWait) {
  LeaveEverySecondPageFree();
  const Address lent = Allocate(MiB(16), kSide);
  MakeBusyUntil(kSide, 100);
  AdvanceTo(100);
  Free(lent);
  EXPECT_EQ(Allocate(MiB(2), kMain), first_hole_);
  EXPECT_EQ(statistics().num_stream_waits, 0);
}

TEST_F(Guests, SettleWhereTheyAreWhileTheMemoryThatIsHeldGrows) {
  std::vector<Address> pages;
  for (int i = 0; i < 8; ++i) pages.push_back(Allocate(MiB(2)));
  for (size_t i = 0; i < pages.size(); i += 2) Free(pages[i]);
  const Address grown = Allocate(MiB(16));
  Free(grown);
  EXPECT_EQ(Allocate(MiB(16)), grown) << "one free block still";
  EXPECT_EQ(calls(CallKind::kCreate), 12u);
}

TEST_F(Guests, OfOneStreamNeedNoEvent) {
  LeaveEverySecondPageFree();
  for (int turn = 0; turn < 5; ++turn) Free(Allocate(MiB(16)));
  EXPECT_EQ(calls(CallKind::kEventRecord), 0u);
  EXPECT_EQ(calls(CallKind::kEventQuery), 0u);
}

// A stream that lends often without lacking memory itself gets it back no more; this one lacks some now and then.
TEST_F(Guests, GoHomeForEverToAStreamThatMissesThem) {
  LeaveEverySecondPageFree();
  for (int turn = 1; turn <= 1'200; ++turn) {
    Free(Allocate(MiB(16), kSide));
    if (turn % 100 == 0) Free(Allocate(MiB(16), kMain));
  }
  const int64_t stitches = statistics().num_stitches;
  EXPECT_EQ(Allocate(MiB(2), kMain), first_hole_);
  EXPECT_EQ(statistics().num_stitches, stitches) << "it was there, and had not to be taken from the other stream";
}

// Between the sizes of one stream nothing is ever lent for good, and the books of each are right at every moment.
TEST_F(Guests, OfTheOtherSizeGroupGoHomeForEver) {
  const Address small = Allocate(MiB(1));
  for (int i = 0; i < 15; ++i) Allocate(MiB(2));
  Free(small);
  for (int turn = 1; turn <= 600; ++turn) {
    const Address large = Allocate(MiB(2));
    EXPECT_EQ(statistics().reserved_bytes[SizeGroup::kSmall].current, 0);
    EXPECT_EQ(statistics().reserved_bytes[SizeGroup::kLarge].current, MiB(32).count());
    Free(large);
    EXPECT_EQ(statistics().reserved_bytes[SizeGroup::kSmall].current, MiB(2).count());
    EXPECT_EQ(statistics().reserved_bytes[SizeGroup::kLarge].current, MiB(30).count());
  }
  const int64_t stitches = statistics().num_stitches;
  EXPECT_EQ(Allocate(MiB(1)), small);
  EXPECT_EQ(statistics().num_stitches, stitches);
}

TEST_F(Guests, ThatLieSideBySideGoHomeAsOne) {
  const Address mine = Allocate(MiB(8), kMain);
  Allocate(MiB(24), kMain);
  Free(mine);
  const Address lent = Allocate(MiB(8), kSide);
  RecordingObserver observer;
  allocator_->settings().SetObserver(&observer);
  Free(lent);
  allocator_->settings().SetObserver(nullptr);
  std::vector<Bytes> sizes;
  for (const MemoryEvent& event : observer.events) {
    if (event.kind == MemoryEvent::Kind::kMap || event.kind == MemoryEvent::Kind::kUnmap) sizes.push_back(event.size);
  }
  EXPECT_EQ(sizes, std::vector({MiB(8), MiB(8)})) << "left in one piece, and filled in one";
}

}  // namespace
}  // namespace frugal
