// The ladder of a miss, step by step: what each step gains, that none is taken that is not needed, and what the report
// says when all have failed.

#include <string>
#include <thread>
#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace frugal {
namespace {

constexpr Stream kThird{3};

class LadderTest : public AllocatorTest {
 protected:
  explicit LadderTest(Reclaimer* reclaimer = nullptr, bool virtual_memory = true)
      : AllocatorTest(MiB(64), virtual_memory, reclaimer) {}
  Remedies remedies() const { return LastOutOfMemory().remedies; }
};

TEST_F(LadderTest, EndsBeforeItBeginsForMoreThanTheDeviceHas) {
  EXPECT_TRUE(IsOutOfMemory(MiB(64) + Bytes(1)));
  EXPECT_EQ(calls(CallKind::kReserve), 0u) << "not even addresses are wanted";
  Allocate(MiB(64));
}

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

TEST_F(LadderTest, ReportsWhatWasKnownAndLeavesTheAllocatorUsable) {
  const Address block = Allocate(MiB(48));
  EXPECT_TRUE(IsOutOfMemory(MiB(32)));
  const OutOfMemoryReport report = LastOutOfMemory();
  EXPECT_EQ(report.requested, MiB(32));
  EXPECT_EQ(report.allocated, MiB(48));
  EXPECT_EQ(report.reserved, MiB(48));
  EXPECT_EQ(report.device_free, MiB(16));
  EXPECT_EQ(report.device_total, MiB(64));
  EXPECT_EQ(statistics().num_ooms, 1);
  Free(block);
  Allocate(MiB(64));
}

TEST_F(LadderTest, ReportsToAThreadItsOwnRequestAndNoOthersThatFailedAfterIt) {
  EXPECT_TRUE(IsOutOfMemory(GiB(1)));
  std::thread([this] {
    EXPECT_TRUE(IsOutOfMemory(GiB(2)));
    EXPECT_EQ(LastOutOfMemory().requested, GiB(2));
  }).join();
  EXPECT_EQ(LastOutOfMemory().requested, GiB(1));
}

TEST_F(LadderTest, CountsWhatOthersHoldAgainstTheLimit) {
  SharedLimit& limit = allocator_->settings().limit();
  limit.Set(MiB(32));
  ASSERT_TRUE(limit.Take(MiB(16)));
  EXPECT_TRUE(IsOutOfMemory(MiB(18)));
  EXPECT_EQ(LastOutOfMemory().limit, MiB(32));
  Allocate(MiB(16));
  limit.GiveBack(MiB(16));
  Allocate(MiB(16));
}

// While one request waits for caches, another thread's fails.
class BesideAnother : public Reclaimer {
 public:
  bool ReleaseCaches() override {
    if (is_asked_) return false;
    is_asked_ = true;
    std::thread([this] {
      EXPECT_TRUE(absl::IsResourceExhausted(allocator->Allocate(MiB(50), kSide).status()));
      EXPECT_EQ(LastOutOfMemory().remedies.stream_waits, Bytes(0));
      EXPECT_TRUE(LastOutOfMemory().driver_failure.ok()) << LastOutOfMemory().driver_failure;
    }).join();
    return false;
  }
  bool CollectGarbage() override { return false; }

  DeviceAllocator* allocator = nullptr;

 private:
  bool is_asked_ = false;
};

class LadderOfTwo : public BesideAnother, public AllocatorTest {
 protected:
  LadderOfTwo() : AllocatorTest(MiB(64), true, this) { allocator = allocator_.get(); }
};

TEST_F(LadderOfTwo, HasTheRemediesAndTheFailuresOfEachForItself) {
  Allocate(MiB(32));
  const Address block = Allocate(MiB(30));
  UseOn(block, kSide, 100);
  Free(block);
  ASSERT_TRUE(device_.SetFaults("memory_info@1=invalid_value"));
  EXPECT_TRUE(IsOutOfMemory(MiB(40)));
  EXPECT_EQ(LastOutOfMemory().remedies.stream_waits, MiB(30));
  EXPECT_NE(std::string(LastOutOfMemory().driver_failure.message()), "");
}

// Gives back what a test tells it to, step by step.
class GivingReclaimer : public Reclaimer {
 public:
  bool HasReleased() const override { return !of_released.empty(); }
  bool GiveBackReleased() override { return Give("released ", std::exchange(of_released, {}), {}); }
  bool ReleaseCaches() override { return Give("caches ", of_caches, of_device); }
  bool CollectGarbage() override { return Give("garbage ", of_garbage, {}); }
  bool AskNeighbours(Bytes wanted) override {
    asked_for = wanted;
    Give("neighbours ", {}, of_neighbours);
    return has_neighbours;
  }

  DeviceAllocator* allocator = nullptr;
  sim::SimulatedDevice* device = nullptr;
  std::vector<Address> of_released;
  std::vector<Address> of_caches;
  std::vector<Address> of_garbage;
  std::vector<Address> of_device;  // another allocator's
  std::vector<Address> of_neighbours;
  bool has_neighbours = false;
  Bytes asked_for;
  bool promises = false;  // says that something came back, whatever did
  std::string faults;     // of the device, from then on
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
  explicit LadderOfOthers(bool virtual_memory = true) : LadderTest(&reclaimer_, virtual_memory) {
    reclaimer_.allocator = allocator_.get();
    reclaimer_.device = &device_;
  }
  GivingReclaimer reclaimer_;
};

TEST_F(LadderOfOthers, HaveGivenBackWhatTheyReleasedBeforeNewMemoryIsTaken) {
  reclaimer_.of_released = {Allocate(MiB(16))};
  const int64_t held = allocator_->GetStatistics().reserved_bytes[SizeGroup::kAll].current;
  Allocate(MiB(16));
  EXPECT_EQ(reclaimer_.asked, "released ");
  EXPECT_EQ(allocator_->GetStatistics().reserved_bytes[SizeGroup::kAll].current, held);
  Allocate(MiB(16));
  EXPECT_EQ(reclaimer_.asked, "released ");
}

TEST_F(LadderOfOthers, ReportsWhatEachGaveThoughItWasNotEnough) {
  reclaimer_.of_caches = {Allocate(MiB(16))};
  reclaimer_.of_garbage = {Allocate(MiB(8))};
  Allocate(MiB(40));
  EXPECT_TRUE(IsOutOfMemory(MiB(30)));
  EXPECT_EQ(remedies().caches, MiB(16));
  EXPECT_EQ(remedies().garbage, MiB(8));
  EXPECT_EQ(remedies().neighbours, std::nullopt);
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

TEST_F(LadderOfOthers, AsksNeighboursLastAndTakesWhatTheyGive) {
  reclaimer_.has_neighbours = true;
  reclaimer_.of_neighbours = {*device_.Malloc(MiB(32))};
  Allocate(MiB(30));
  Allocate(MiB(33));
  EXPECT_EQ(reclaimer_.asked, "caches garbage neighbours ");
  EXPECT_EQ(reclaimer_.asked_for, MiB(34)) << "whole pages";
  EXPECT_EQ(statistics().num_ooms, 0);
}

TEST_F(LadderOfOthers, ReportsWhatNeighboursGaveThoughItWasNotEnough) {
  reclaimer_.has_neighbours = true;
  const Address others = *device_.Malloc(MiB(32));
  EXPECT_TRUE(IsOutOfMemory(MiB(40)));
  EXPECT_EQ(remedies().neighbours, Bytes(0));
  ASSERT_TRUE(device_.Free(others).ok());
  reclaimer_.of_neighbours = {*device_.Malloc(MiB(8))};
  Allocate(MiB(30));
  device_.Malloc(MiB(4)).IgnoreError();
  EXPECT_TRUE(IsOutOfMemory(MiB(34)));
  EXPECT_EQ(remedies().neighbours, MiB(8));
}

TEST_F(LadderOfOthers, AsksNoNeighbourForWhatALimitOrTheDeviceDoesNotHold) {
  reclaimer_.has_neighbours = true;
  Allocate(MiB(40));
  EXPECT_TRUE(IsOutOfMemory(MiB(30)));
  allocator_->settings().limit().Set(MiB(48));
  EXPECT_TRUE(IsOutOfMemory(MiB(10)));
  EXPECT_EQ(reclaimer_.asked, "caches garbage caches garbage ");
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
class LadderOfSegments : public LadderOfOthers {
 protected:
  LadderOfSegments() : LadderOfOthers(/*virtual_memory=*/false) {}
};

TEST_F(LadderOfSegments, EndsWithTheVeryBlockThatCachesGave) {
  const Address block = Allocate(MiB(40));
  Allocate(MiB(24));
  reclaimer_.of_caches = {block};
  EXPECT_EQ(Allocate(MiB(40)), block);
  EXPECT_EQ(reclaimer_.asked, "caches ");
}

}  // namespace
}  // namespace frugal
