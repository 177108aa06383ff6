// Whoever listens to memory is told outside of the allocator's locks, in the order in which things happened, and what
// it throws reaches nobody's accounting.

#include <map>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/port/observer.h"
#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

using Kind = MemoryEvent::Kind;

class Observed : public AllocatorTest {
 protected:
  Observed() { allocator_->settings().SetCheckLevel(CheckLevel::kFull); }
  void Watch(Observer& observer) { allocator_->settings().SetObserver(&observer); }
  ~Observed() override {
    allocator_->settings().SetObserver(nullptr);
    EXPECT_TRUE(allocator_->inspect().Health().ok()) << allocator_->inspect().Health();
    allocator_->inspect().CheckInvariants();
  }
};

TEST_F(Observed, EveryChangeIsToldInOrder) {
  RecordingObserver observer;
  Watch(observer);
  int note = 0;
  absl::StatusOr<Allocation> block = allocator_->Allocate(MiB(2) - Bytes(1), kMain, &note);
  ASSERT_TRUE(block.ok());
  UseOn(block->address, kSide, 100);
  Free(block->address);
  EXPECT_TRUE(observer.dropped.empty());
  AdvanceTo(100);
  ASSERT_TRUE(allocator_->Trim().ok());
  EXPECT_EQ(observer.kinds(),
            (std::vector<Kind>{Kind::kMap, Kind::kAllocate, Kind::kFreeRequested, Kind::kFreeCompleted, Kind::kUnmap}));
  for (const MemoryEvent& event : observer.events) EXPECT_EQ(event.stream, kMain);
  EXPECT_EQ(observer.events[1].annotation, &note);
  EXPECT_EQ(observer.events[1].size, MiB(2));
  EXPECT_EQ(observer.events[1].requested, MiB(2) - Bytes(1));
  EXPECT_EQ(observer.dropped, std::vector<void*>{&note});
}

// Throws once, at the first event of a kind.
class ThrowingObserver final : public RecordingObserver {
 public:
  explicit ThrowingObserver(Kind kind) : kind_(kind) {}
  void OnMemoryEvent(const MemoryEvent& event) override {
    RecordingObserver::OnMemoryEvent(event);
    if (event.kind == kind_ && !std::exchange(has_thrown, true)) throw std::runtime_error("a tracker fails");
  }

  bool has_thrown = false;

 private:
  const Kind kind_;
};

class ObserverThatThrows : public Observed, public testing::WithParamInterface<Kind> {};

TEST_P(ObserverThatThrows, LeavesTheAccountingWhole) {
  ThrowingObserver observer(GetParam());
  std::vector<Address> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(Allocate(MiB(4)));
  for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
  Watch(observer);
  const auto work = [&] {
    const absl::StatusOr<Allocation> block = allocator_->Allocate(MiB(18), kMain);
    ASSERT_TRUE(block.ok());
    EXPECT_TRUE(allocator_->Free(block->address).ok());
    EXPECT_TRUE(allocator_->Trim().ok());
  };
  EXPECT_THROW(work(), std::runtime_error);
  EXPECT_TRUE(observer.has_thrown);
  work();
  for (size_t i = 1; i < blocks.size(); i += 2) Free(blocks[i]);
  EXPECT_TRUE(allocator_->Trim().ok());
  EXPECT_EQ(Held(), Bytes(0));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ObserverThatThrows,
                         testing::Values(Kind::kMap, Kind::kUnmap, Kind::kAllocate, Kind::kFreeRequested,
                                         Kind::kFreeCompleted));

TEST_F(Observed, ARequestWhoseObserverThrowsHandsNothingOut) {
  ThrowingObserver observer(Kind::kAllocate);
  Watch(observer);
  int note = 0;
  EXPECT_THROW((void)allocator_->Allocate(MiB(4), kMain, &note), std::runtime_error);
  EXPECT_EQ(allocator_->GetStatistics().allocated_bytes[SizeGroup::kAll].current, 0);
  EXPECT_EQ(observer.kinds(),
            (std::vector<Kind>{Kind::kMap, Kind::kAllocate, Kind::kFreeRequested, Kind::kFreeCompleted}));
  EXPECT_EQ(observer.dropped, std::vector<void*>{&note});
}

TEST_F(Observed, AFreeWhoseObserverThrowsHasFreed) {
  ThrowingObserver observer(Kind::kFreeRequested);
  const Address block = Allocate(MiB(4));
  Watch(observer);
  EXPECT_THROW((void)allocator_->Free(block), std::runtime_error);
  EXPECT_TRUE(absl::IsNotFound(allocator_->Free(block).status()));
  EXPECT_EQ(observer.kinds(), (std::vector<Kind>{Kind::kFreeRequested, Kind::kFreeCompleted}));
}

// Asks for memory whenever it hears that somebody else got some.
class AskingObserver final : public RecordingObserver {
 public:
  explicit AskingObserver(DeviceAllocator& allocator) : allocator_(allocator) {}
  void OnMemoryEvent(const MemoryEvent& event) override {
    RecordingObserver::OnMemoryEvent(event);
    if (event.kind != Kind::kAllocate || event.requested != MiB(4)) return;
    const absl::StatusOr<Allocation> own = allocator_.Allocate(MiB(2), kMain);
    ASSERT_TRUE(own.ok());
    EXPECT_TRUE(allocator_.Free(own->address).ok());
  }

 private:
  DeviceAllocator& allocator_;
};

TEST_F(Observed, AnObserverMayAskForMemoryAndIsToldOfItAfterwards) {
  AskingObserver observer(*allocator_);
  Watch(observer);
  Free(Allocate(MiB(4)));
  EXPECT_EQ(observer.kinds(),
            (std::vector<Kind>{Kind::kMap, Kind::kAllocate, Kind::kMap, Kind::kAllocate, Kind::kFreeRequested,
                               Kind::kFreeCompleted, Kind::kFreeRequested, Kind::kFreeCompleted}));
}

TEST_F(Observed, AnObserverMayAskForMemoryOfAnotherGpuWhoseObserverIsToldBeforeTheCallReturns) {
  sim::SimulatedDevice device({.memory = MiB(64)});
  DeviceAllocator other(device, directory_, nullptr);
  RecordingObserver others;
  other.settings().SetObserver(&others);
  AskingObserver observer(other);
  Watch(observer);
  const Address block = Allocate(MiB(4));
  EXPECT_EQ(others.kinds(),
            (std::vector<Kind>{Kind::kMap, Kind::kAllocate, Kind::kFreeRequested, Kind::kFreeCompleted}));
  Free(block);
  other.settings().SetObserver(nullptr);
}

TEST_F(Observed, ALatecomerIsToldNothingOfWhatWasBefore) {
  RecordingObserver first;
  RecordingObserver second;
  Watch(first);
  const Address block = Allocate(MiB(4));
  Watch(second);
  Free(block);
  EXPECT_EQ(first.kinds(), (std::vector<Kind>{Kind::kMap, Kind::kAllocate}));
  EXPECT_EQ(second.kinds(), (std::vector<Kind>{Kind::kFreeRequested, Kind::kFreeCompleted}));
}

// Keeps its own account of what is handed out, and which thread it is told by.
class CountingObserver final : public Observer {
 public:
  void OnMemoryEvent(const MemoryEvent& event) override {
    if (event.kind == Kind::kAllocate) {
      EXPECT_TRUE(live_.emplace(event.address, event.size).second) << "handed out before it was given back";
      EXPECT_EQ(event.origin, event.annotation) << "the origin is the asking thread's";
    }
    if (event.kind == Kind::kFreeRequested) {
      EXPECT_EQ(live_.erase(event.address), 1u);
    }
  }
  void DropAnnotation(void* /*annotation*/) override {}
  const void* Origin() const override { return ThreadsOrigin(); }
  static void*& ThreadsOrigin() {
    thread_local void* origin = nullptr;
    return origin;
  }
  size_t live() const { return live_.size(); }

 private:
  std::map<Address, Bytes> live_;
};

TEST_F(Observed, EventsOfThreadsComeInTheOrderOfTheAccounting) {
  CountingObserver observer;
  Watch(observer);
  const auto play = [&](uint64_t seed) {
    SCOPED_TRACE(seed);
    CountingObserver::ThreadsOrigin() = &seed;
    std::mt19937_64 random(seed);
    std::vector<Address> live;
    for (int step = 0; step < 300; ++step) {
      const absl::StatusOr<Allocation> made =
          allocator_->Allocate(KiB(1 + static_cast<int64_t>(random() % 3000)), kMain, &seed);
      if (made.ok()) live.push_back(made->address);
      if (live.size() < 6) continue;
      EXPECT_TRUE(allocator_->Free(live.front()).ok());
      live.erase(live.begin());
    }
    for (Address block : live) EXPECT_TRUE(allocator_->Free(block).ok());
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(play, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(observer.live(), 0u);
}

}  // namespace
}  // namespace frugal
