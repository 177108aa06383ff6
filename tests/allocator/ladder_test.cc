// The ladder of a miss, step by step: what each step gains, that none is taken that is not needed, and what the report
// says when all have failed.

#include <string>
#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

constexpr Stream kThird{3};

TEST(Ladder, EndsBeforeItBeginsForMoreThanTheDeviceHas) {
  sim::SimulatedDevice device({.memory = MiB(64)});
  AddressDirectory directory;
  DeviceAllocator allocator(device, directory, nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(allocator.Allocate(MiB(64) + Bytes(1), kMain).status()));
  EXPECT_EQ(device.calls(sim::CallKind::kReserve), 0u) << "not even addresses are wanted";
  EXPECT_TRUE(allocator.Allocate(MiB(64), kMain).ok());
}

TEST(Ladder, LeavesNothingBehindWhenTheAllocatorEnds) {
  sim::SimulatedDevice device({.memory = MiB(64)});
  AddressDirectory directory;
  Address block;
  {
    DeviceAllocator allocator(device, directory, nullptr);
    block = allocator.Allocate(MiB(8), kMain)->address;
    EXPECT_EQ(directory.Find(block), &allocator);
    EXPECT_TRUE(allocator.Free(block).ok());
    EXPECT_TRUE(allocator.Free(allocator.Allocate(MiB(1), kSide)->address).ok());
  }
  EXPECT_EQ(device.used(), Bytes(0));
  EXPECT_EQ(device.live_events(), 0);
  EXPECT_EQ(device.calls(sim::CallKind::kUnreserve), device.calls(sim::CallKind::kReserve));
  EXPECT_EQ(directory.Find(block), nullptr);
}

class LadderTest : public AllocatorTest {
 protected:
  explicit LadderTest(Reclaimer* reclaimer = nullptr) : AllocatorTest(MiB(64), true, reclaimer) {}
  Remedies remedies() const { return LastOutOfMemory().remedies; }
};

TEST_F(LadderTest, TakesBackWhatItsOwnStreamGaveAwayWithoutAnyOtherMemory) {
  const Address block = Allocate(MiB(64));
  UseOn(block, kSide, 100);
  Free(block);
  const uint64_t maps = calls(CallKind::kMap);
  EXPECT_EQ(Allocate(MiB(64)), block);
  EXPECT_EQ(calls(CallKind::kMap), maps) << "it lies there already";
  EXPECT_EQ(calls(CallKind::kStreamWait), 1u);
  EXPECT_EQ(calls(CallKind::kSync), 0u) << "the host waits only when nothing else helps";
  EXPECT_EQ(statistics().num_stream_waits, 1);
  EXPECT_EQ(statistics().num_alloc_retries, 0);
}

TEST_F(LadderTest, ReportsWhatStreamWaitsGained) {
  Allocate(MiB(32));
  const Address block = Allocate(MiB(30));
  UseOn(block, kSide, 100);
  Free(block);
  EXPECT_TRUE(IsOutOfMemory(MiB(40)));
  EXPECT_EQ(remedies().stream_waits, MiB(30));
  EXPECT_EQ(remedies().host_waits, Bytes(0));
  EXPECT_EQ(LastOutOfMemory().awaiting, Bytes(0));
  EXPECT_TRUE(IsOutOfMemory(MiB(40)));
  EXPECT_EQ(remedies().stream_waits, Bytes(0)) << "that was the miss before";
}

TEST_F(LadderTest, ReportsWhatHostWaitsGained) {
  Allocate(MiB(32));
  const Address block = Allocate(MiB(30), kSide);
  UseOn(block, kThird, 100);
  Free(block);
  EXPECT_TRUE(IsOutOfMemory(MiB(40)));
  EXPECT_EQ(remedies().stream_waits, Bytes(0)) << "the block's owner is another stream";
  EXPECT_EQ(remedies().host_waits, MiB(30));
  EXPECT_EQ(now(), 100);
  EXPECT_EQ(statistics().num_sync_all_streams, 1);
  EXPECT_TRUE(IsOutOfMemory(MiB(40)));
  EXPECT_EQ(remedies().host_waits, Bytes(0));
  EXPECT_EQ(statistics().num_sync_all_streams, 1) << "there was nothing left to wait for";
}

TEST_F(LadderTest, LetsTheHostWaitOnlyForTheBlockThatItThenTakes) {
  const Address block = Allocate(MiB(64), kSide);
  UseOn(block, kThird, 100);
  Free(block);
  Allocate(MiB(60));
  EXPECT_EQ(now(), 100);
  EXPECT_EQ(statistics().num_ooms, 0);
}

// A stream that is being captured cannot wait for others, but the host can.
TEST_F(LadderTest, ServesACapturedStreamByAWaitOfTheHost) {
  const Address block = Allocate(MiB(64), kSide);
  UseOn(block, kThird, 100);
  Free(block);
  device_.BeginCapture(kSide);
  const uint64_t maps = calls(CallKind::kMap);
  EXPECT_EQ(Allocate(MiB(64), kSide), block);
  EXPECT_EQ(calls(CallKind::kMap), maps) << "it lies there already";
  EXPECT_EQ(now(), 100);
  EXPECT_EQ(statistics().num_stream_waits, 0);
  device_.EndCapture(kSide);
}

TEST_F(LadderTest, ServesACapturedStreamWithWhatABusyOneFreed) {
  const Address block = Allocate(MiB(60), kSide);
  MakeBusyUntil(kSide, 100);
  Free(block);
  device_.BeginCapture(kMain);
  Allocate(MiB(60));
  EXPECT_EQ(now(), 100);
  EXPECT_EQ(statistics().num_stream_waits, 0);
  device_.EndCapture(kMain);
}

TEST_F(LadderTest, ReportsWhatACaptureKeepsFromEverybody) {
  Allocate(MiB(32));
  const Address block = Allocate(MiB(30), kSide);
  device_.BeginCapture(kThird);
  EXPECT_TRUE(allocator_->RecordStream(block, kThird).ok());
  Free(block);
  EXPECT_TRUE(IsOutOfMemory(MiB(40)));
  const OutOfMemoryReport report = LastOutOfMemory();
  EXPECT_EQ(report.awaiting, MiB(30));
  EXPECT_EQ(report.allocated, MiB(32));
  EXPECT_EQ(report.remedies.host_waits, Bytes(0));
  device_.EndCapture(kThird);
}

TEST_F(LadderTest, ReportsFreeMemoryThatCannotMove) {
  const Address first = Allocate(MiB(3));
  Allocate(MiB(5));
  Free(first);
  EXPECT_TRUE(IsOutOfMemory(MiB(60)));
  OutOfMemoryReport report = LastOutOfMemory();
  EXPECT_EQ(report.largest_free, MiB(3));
  EXPECT_EQ(report.unusable, MiB(1)) << "of the page that both shared";
  Allocate(MiB(3));
  EXPECT_TRUE(IsOutOfMemory(MiB(60)));
  report = LastOutOfMemory();
  EXPECT_EQ(report.unusable, Bytes(0));
  EXPECT_EQ(report.largest_free, Bytes(0));
}

TEST_F(LadderTest, FindsEveryWholeFreePageOfAnyStreamBeforeItGivesUp) {
  std::vector<Address> holes;
  for (int i = 0; i < 16; ++i) {
    Allocate(MiB(2), i % 2 == 0 ? kMain : kSide);
    holes.push_back(Allocate(MiB(2), i % 3 == 0 ? kMain : kSide));
  }
  for (Address hole : holes) Free(hole);
  MakeBusyUntil(kSide, 1000);
  MakeBusyUntil(kMain, 1000);
  Allocate(MiB(32));
  EXPECT_EQ(now(), 0) << "stream waits were enough";
  EXPECT_GT(statistics().num_stream_waits, 0);
  EXPECT_EQ(statistics().num_ooms, 0);
}

// Gives back what a test tells it to, step by step.
class GivingReclaimer : public Reclaimer {
 public:
  bool ReleaseCaches() override { return Give("caches ", of_caches, of_device); }
  bool CollectGarbage() override { return Give("garbage ", of_garbage, {}); }

  DeviceAllocator* allocator = nullptr;
  sim::SimulatedDevice* device = nullptr;
  std::vector<Address> of_caches;
  std::vector<Address> of_garbage;
  std::vector<Address> of_device;  // another allocator's
  bool promises = false;           // says that something came back, whatever did
  std::string faults;              // of the device, from then on
  std::string asked;

 private:
  bool Give(const char* step, const std::vector<Address>& blocks, const std::vector<Address>& segments) {
    asked += step;
    for (Address block : blocks) EXPECT_TRUE(allocator->Free(block).ok());
    for (Address segment : segments) EXPECT_TRUE(device->Free(segment).ok());
    EXPECT_TRUE(faults.empty() || device->SetFaults(faults));
    return promises || !blocks.empty() || !segments.empty();
  }
};

class LadderOfOthers : public LadderTest {
 protected:
  LadderOfOthers() : LadderTest(&reclaimer_) {
    reclaimer_.allocator = allocator_.get();
    reclaimer_.device = &device_;
  }
  GivingReclaimer reclaimer_;
};

TEST_F(LadderOfOthers, ReportsWhatEachGaveThoughItWasNotEnough) {
  reclaimer_.of_caches = {Allocate(MiB(16))};
  reclaimer_.of_garbage = {Allocate(MiB(8))};
  Allocate(MiB(40));
  EXPECT_TRUE(IsOutOfMemory(MiB(30)));
  EXPECT_EQ(remedies().caches, MiB(16));
  EXPECT_EQ(remedies().garbage, MiB(8));
  EXPECT_EQ(reclaimer_.asked, "caches garbage ");
  reclaimer_.of_caches.clear();
  reclaimer_.of_garbage.clear();
  EXPECT_TRUE(IsOutOfMemory(MiB(30)));
  EXPECT_EQ(remedies().caches, Bytes(0));
  EXPECT_EQ(remedies().garbage, Bytes(0));
}

TEST_F(LadderOfOthers, TakesWhatTheyGiveBackToTheDeviceAndAsksForNoMore) {
  reclaimer_.of_device = {*device_.Malloc(MiB(32))};
  const Address awaiting = Allocate(MiB(2), kSide);
  UseOn(awaiting, kThird, 100);
  Free(awaiting);
  Allocate(MiB(30));
  Allocate(MiB(32));
  EXPECT_EQ(reclaimer_.asked, "caches ");
  EXPECT_EQ(calls(CallKind::kSync), 0u);
  EXPECT_EQ(statistics().num_sync_all_streams, 0) << "the block that awaits a stream was not needed";
}

TEST_F(LadderOfOthers, TakesABlockOfABusyStreamBehindAStreamWait) {
  reclaimer_.of_caches = {Allocate(MiB(60), kSide)};
  MakeBusyUntil(kSide, 100);
  Allocate(MiB(60));
  EXPECT_EQ(reclaimer_.asked, "caches ");
  EXPECT_EQ(now(), 0) << "the host did not wait";
  EXPECT_EQ(calls(CallKind::kStreamWait), 1u);
}

TEST_F(LadderOfOthers, TakesABlockWhoseOtherStreamsHavePassed) {
  const Address block = Allocate(MiB(60));
  ASSERT_TRUE(allocator_->RecordStream(block, kSide).ok());
  reclaimer_.of_caches = {block};
  const uint64_t maps = calls(CallKind::kMap);
  EXPECT_EQ(Allocate(MiB(60)), block);
  EXPECT_EQ(reclaimer_.asked, "caches ");
  EXPECT_EQ(calls(CallKind::kMap), maps) << "it lies there already";
  EXPECT_EQ(calls(CallKind::kSync), 0u);
}

TEST_F(LadderOfOthers, AsksForGarbageAlthoughCachesGaveTooLittle) {
  reclaimer_.of_caches = {Allocate(MiB(16))};
  reclaimer_.of_garbage = {Allocate(MiB(48))};
  Allocate(MiB(64));
  EXPECT_EQ(reclaimer_.asked, "caches garbage ");
  EXPECT_EQ(statistics().num_ooms, 0);
}

TEST_F(LadderOfOthers, EndsWithTheVeryBlockThatCachesGave) {
  const Address awaiting = Allocate(MiB(2), kSide);
  UseOn(awaiting, kThird, 100);
  Free(awaiting);
  Allocate(MiB(2));
  const Address block = Allocate(MiB(40));
  Allocate(MiB(20));
  reclaimer_.of_caches = {block};
  const uint64_t maps = calls(CallKind::kMap);
  EXPECT_EQ(Allocate(MiB(40)), block);
  EXPECT_EQ(calls(CallKind::kMap), maps) << "it lies there already";
  EXPECT_EQ(calls(CallKind::kSync), 0u);
  EXPECT_EQ(now(), 0) << "the host waited for nobody";
}

TEST_F(LadderOfOthers, AsksTheDeviceNothingMoreWhenNobodyGivesAnything) {
  const auto queries_with = [](Reclaimer* reclaimer) {
    sim::SimulatedDevice device({.memory = MiB(64)});
    AddressDirectory directory;
    DeviceAllocator allocator(device, directory, reclaimer);
    const Address awaiting = allocator.Allocate(MiB(8), kSide)->address;
    EXPECT_TRUE(allocator.RecordStream(awaiting, kThird).ok());
    device.MakeBusyUntil(kThird, sim::Nanoseconds(100));
    EXPECT_TRUE(allocator.Free(awaiting).ok());
    EXPECT_TRUE(allocator.Allocate(MiB(60), kMain).ok()) << "the host waits in the end";
    return device.calls(CallKind::kEventQuery);
  };
  EXPECT_EQ(queries_with(&reclaimer_), queries_with(nullptr));
  EXPECT_EQ(reclaimer_.asked, "caches garbage ");
}

TEST_F(LadderOfOthers, ReportsNothingOfAPromiseThatWasNotKept) {
  reclaimer_.promises = true;
  Allocate(MiB(40));
  EXPECT_TRUE(IsOutOfMemory(MiB(30)));
  EXPECT_EQ(remedies().caches, Bytes(0));
  EXPECT_EQ(remedies().garbage, Bytes(0));
}

// The device fails the question whether a stream has passed: the request is made once more, and that is counted.
TEST_F(LadderOfOthers, CountsACallThatFailsAfterwards) {
  const Address awaiting = Allocate(MiB(2), kSide);
  UseOn(awaiting, kThird, 100);
  Free(awaiting);
  reclaimer_.of_caches = {Allocate(MiB(60), kSide)};
  reclaimer_.faults = "event_query@1=invalid_value";
  Allocate(MiB(60));
  EXPECT_EQ(statistics().num_driver_failures, 1);
  EXPECT_EQ(reclaimer_.asked, "caches ");
}

// On segments, where a step that is not needed would ask the device for another one.
TEST(LadderOfSegments, EndsWithTheVeryBlockThatCachesGave) {
  GivingReclaimer reclaimer;
  sim::SimulatedDevice device({.memory = MiB(64), .virtual_memory = false});
  AddressDirectory directory;
  DeviceAllocator allocator(device, directory, &reclaimer);
  reclaimer.allocator = &allocator;
  const Address block = allocator.Allocate(MiB(40), kMain)->address;
  EXPECT_TRUE(allocator.Allocate(MiB(24), kMain).ok());
  reclaimer.of_caches = {block};
  EXPECT_EQ(allocator.Allocate(MiB(40), kMain)->address, block);
  EXPECT_EQ(reclaimer.asked, "caches ");
}

// The only place that does not lie in pages of handles that are lent joins two free blocks, whose pages it cannot take.
TEST(Ladder, FindsAPlaceApartInTheRangeThatIsThere) {
  sim::SimulatedDevice device({.memory = MiB(48)});
  AddressDirectory directory;
  DeviceAllocator allocator(device, directory, nullptr);
  const auto allocate = [&allocator](Bytes size, uint64_t stream) {
    const absl::StatusOr<Allocation> made = allocator.Allocate(size, Stream{stream});
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->address : Address();
  };
  const auto free = [&allocator](Address block) { EXPECT_TRUE(allocator.Free(block).ok()); };
  allocate(MiB(6), 1);
  const Address second = allocate(MiB(4), 4);
  allocate(Bytes(1), 1);
  allocate(MiB(4), 1);
  const Address between = allocate(KiB(1950), 4);
  allocate(MiB(2), 1);
  const Address last = allocate(MiB(10), 4);
  allocate(MiB(6), 1);
  allocate(MiB(2), 3);
  ASSERT_TRUE(allocator.RecordStream(last, Stream{1}).ok());
  device.MakeBusyUntil(Stream{1}, sim::Nanoseconds(1));
  free(last);
  free(between);
  allocate(MiB(6), 1);
  free(allocate(MiB(2), 4));
  for (int i = 0; i < 2; ++i) allocate(MiB(2), 1);
  allocate(Bytes(1), 3);
  free(second);
  const uint64_t reserves = device.calls(sim::CallKind::kReserve);
  allocate(MiB(12), 4);
  EXPECT_EQ(device.calls(sim::CallKind::kReserve), reserves);
  EXPECT_EQ(device.used(), MiB(48));
}

}  // namespace
}  // namespace frugal
