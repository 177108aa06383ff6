// Late work: what is outstanding touches its memory when simulated time reaches its end.

#include "simulated_gpu/machine/late_work.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/thread_state.h"
#include "simulated_gpu/tests/simulated_machine.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

class LateWorkTest : public SimulatedMachine {
 protected:
  LateWorkTest() : SimulatedMachine({.memory = GiB(1), .context = Bytes(0), .late = true}) {
    machine_.late()->OnFault([this](const std::string& fault) { faults_.push_back(fault); });
  }

  // Work that notes `number` when it runs.
  Work Noting(int number, Nanoseconds duration) {
    return {WorkKind::kKernel, duration, [this, number] { done_.push_back(number); }};
  }
  void Run(Stream& stream, Work work) { ASSERT_EQ(streams_.Enqueue(stream, std::move(work)), Error::kSuccess); }
  void Touch(Stream& stream, Address start, Bytes size, Nanoseconds duration) {
    Work work{WorkKind::kKernel, duration, nullptr};
    work.name = "kernel";
    work.uses = {{start, size, /*writes=*/true, /*must_be_mapped=*/true}};
    Run(stream, std::move(work));
  }

  Address MappedPage() {
    const Address page = Reserve(kPage);
    MapWithAccess(page, kPage, Create());
    return page;
  }

  std::vector<int> done_;
  std::vector<std::string> faults_;
};

TEST_F(LateWorkTest, RunsWhenTimeReachesItsEndAndNotBefore) {
  Run(NewStream(), Noting(1, microseconds(5)));
  machine_.clock().Set(microseconds(4));
  EXPECT_TRUE(done_.empty());
  machine_.clock().Set(microseconds(5));
  EXPECT_EQ(done_, std::vector<int>{1});
}

TEST_F(LateWorkTest, RunsInTheOrderOfTimeAcrossStreams) {
  Stream& slow = NewStream();
  Stream& fast = NewStream();
  Run(slow, Noting(1, microseconds(9)));
  Run(fast, Noting(2, microseconds(3)));
  Run(fast, Noting(3, microseconds(3)));
  machine_.clock().Set(microseconds(20));
  EXPECT_EQ(done_, (std::vector<int>{2, 3, 1}));
}

TEST_F(LateWorkTest, OfWhatEndsTogetherTheFirstThatWasEnqueuedRunsFirst) {
  Run(NewStream(), Noting(1, microseconds(5)));
  Run(NewStream(), Noting(2, microseconds(5)));
  machine_.clock().Set(microseconds(5));
  EXPECT_EQ(done_, (std::vector<int>{1, 2}));
}

TEST_F(LateWorkTest, WorkThatTakesNoTimeRunsAfterWhatItsStreamHas) {
  Stream& stream = NewStream();
  Run(stream, Noting(1, microseconds(5)));
  Run(stream, Noting(2, Nanoseconds(0)));
  EXPECT_TRUE(done_.empty());
  Run(NewStream(), Noting(3, Nanoseconds(0)));
  EXPECT_EQ(done_, std::vector<int>{3}) << "an idle stream has nothing to wait for";
  ASSERT_EQ(streams_.Synchronize(stream), Error::kSuccess);
  EXPECT_EQ(done_, (std::vector<int>{3, 1, 2}));
}

TEST_F(LateWorkTest, WorkAfterALegacyStreamsWaitsForItThoughThatTakesNoTime) {
  Stream& legacy = LegacyStream();
  Run(NewStream(Stream::Kind::kBlocking), Noting(1, microseconds(9)));
  Run(legacy, Noting(2, Nanoseconds(0)));
  Run(NewStream(Stream::Kind::kBlocking), Noting(3, microseconds(1)));
  ASSERT_EQ(streams_.of(0).Synchronize(), Error::kSuccess);
  EXPECT_EQ(done_, (std::vector<int>{1, 2, 3}));
}

TEST_F(LateWorkTest, HasRunOnceTheHostHasSeenItsEvent) {
  Stream& stream = NewStream();
  Run(stream, Noting(1, microseconds(5)));
  Event* event = RecordOn(stream);
  Run(stream, Noting(2, microseconds(5)));
  EXPECT_EQ(streams_.events().Query(event), Error::kNotReady);
  ASSERT_EQ(streams_.events().Synchronize(event), Error::kSuccess);
  EXPECT_EQ(done_, std::vector<int>{1});
}

TEST_F(LateWorkTest, NodesOfAGraphRunAsTheyEnd) {
  auto graph = std::make_shared<Graph>();
  Node* first = graph->Add(Noting(1, microseconds(5)), {});
  graph->Add(Noting(2, microseconds(5)), {first});
  graph->Add(Noting(3, microseconds(7)), {});
  Work launch{WorkKind::kGraph, graph->Duration(), [graph] { graph->Run(); }};
  launch.graph = graph;
  Run(NewStream(), std::move(launch));
  graph.reset();
  machine_.clock().Set(microseconds(7));
  EXPECT_EQ(done_, (std::vector<int>{1, 3}));
  machine_.clock().Set(microseconds(10));
  EXPECT_EQ(done_, (std::vector<int>{1, 3, 2}));
}

TEST_F(LateWorkTest, UnmapUnderRunningWorkIsAFaultThatNamesBoth) {
  const Address page = MappedPage();
  Stream& stream = NewStream();
  Touch(stream, page + KiB(4), KiB(8), microseconds(5));
  machine_.clock().Set(microseconds(2));
  ASSERT_EQ(memory_.Unmap(page, kPage), Error::kSuccess);
  EXPECT_TRUE(faults_.empty()) << "it has not run yet";
  machine_.clock().Set(microseconds(5));
  ASSERT_EQ(faults_.size(), 1u);
  const std::string& fault = faults_.front();
  const std::string thread = std::to_string(ThisThread().number);
  EXPECT_EQ(fault.find("'kernel' on stream " + std::to_string(stream.id) + " of GPU 0, which ends at 5000 ns, writes " +
                       "8192 bytes at 0x"),
            0u)
      << fault;
  EXPECT_NE(fault.find("was unmapped by thread " + thread + " at 2000 ns"), std::string::npos) << fault;
}

TEST_F(LateWorkTest, UnmapAfterTheWorkIsNone) {
  const Address page = MappedPage();
  Stream& stream = NewStream();
  Touch(stream, page, kPage, microseconds(5));
  ASSERT_EQ(streams_.Synchronize(stream), Error::kSuccess);
  ASSERT_EQ(memory_.Unmap(page, kPage), Error::kSuccess);
  machine_.clock().Set(microseconds(50));
  EXPECT_TRUE(faults_.empty());
}

TEST_F(LateWorkTest, OtherMemoryUnderRunningWorkIsAFault) {
  const Address page = MappedPage();
  Touch(NewStream(), page, kPage, microseconds(5));
  ASSERT_EQ(memory_.Unmap(page, kPage), Error::kSuccess);
  MapWithAccess(page, kPage, Create());
  machine_.clock().Set(microseconds(5));
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_NE(faults_.front().find("is another one, mapped by thread"), std::string::npos) << faults_.front();
}

TEST_F(LateWorkTest, TheSameMemoryAgainIsNone) {
  const Address page = Reserve(kPage);
  const HandleId handle = Create();
  MapWithAccess(page, kPage, handle);
  Touch(NewStream(), page, kPage, microseconds(5));
  ASSERT_EQ(memory_.Unmap(page, kPage), Error::kSuccess);
  MapWithAccess(page, kPage, handle);
  machine_.clock().Set(microseconds(5));
  EXPECT_TRUE(faults_.empty());
}

TEST_F(LateWorkTest, WorkOnMemoryThatNeverWasIsAFault) {
  const Address pages = Reserve(kPage * 2);
  MapWithAccess(pages, kPage, Create());
  Touch(NewStream(), pages, kPage * 2, microseconds(5));
  machine_.clock().Set(microseconds(5));
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_NE(faults_.front().find("2097152 bytes of it were never mapped"), std::string::npos) << faults_.front();
}

TEST_F(LateWorkTest, FaultyWorkMovesNoData) {
  const Address page = MappedPage();
  Work work = Noting(1, microseconds(5));
  work.uses = {{page, kPage, /*writes=*/true}};
  Run(NewStream(), std::move(work));
  ASSERT_EQ(memory_.Unmap(page, kPage), Error::kSuccess);
  machine_.clock().Set(microseconds(5));
  EXPECT_TRUE(done_.empty());
  EXPECT_EQ(machine_.late()->faults(), 1u);
}

TEST_F(LateWorkTest, FreeingASegmentWaitsForTheWorkOnIt) {
  const Address segment = Malloc(kPage);
  Touch(NewStream(), segment, kPage, microseconds(5));
  ASSERT_EQ(machine_.FreeSegment(segment), Error::kSuccess);
  machine_.clock().Set(microseconds(50));
  EXPECT_TRUE(faults_.empty());
}

TEST_F(LateWorkTest, WhatIsLeftAtTheEndIsCheckedAndDoesNotRun) {
  const Address page = MappedPage();
  Stream& stream = NewStream();
  Touch(stream, page, kPage, microseconds(5));
  Run(stream, Noting(1, microseconds(5)));
  ASSERT_EQ(memory_.Unmap(page, kPage), Error::kSuccess);
  machine_.late()->CheckTheRest();
  EXPECT_EQ(faults_.size(), 1u);
  EXPECT_TRUE(done_.empty());
  EXPECT_EQ(machine_.late()->outstanding(), 0u);
}

TEST_F(LateWorkTest, HostThatRunsTooFarAheadWaits) {
  Stream& stream = NewStream();
  const int many = static_cast<int>(LateWork::kLongestQueue) + 10;
  for (int i = 0; i < many; ++i) Run(stream, Noting(i, microseconds(5)));
  EXPECT_EQ(machine_.late()->outstanding(), LateWork::kLongestQueue);
  EXPECT_EQ(machine_.clock().Now(), microseconds(5 * 10));
}

TEST(LateClockTest, TimeIsWhatCallsAndKernelsTakeAndTheHostRunsAhead) {
  const Configuration configuration{.late = true};
  Machine machine(configuration);
  Streams& streams = machine.streams();
  Stream& stream = *streams.Create(0, Stream::Kind::kNonBlocking, 0);
  for (int i = 0; i < 10; ++i) {
    const Nanoseconds kernel = configuration.DurationOf(MiB(1));
    ASSERT_EQ(streams.Launch(stream, {WorkKind::kKernel, kernel, nullptr}), Error::kSuccess);
  }
  EXPECT_EQ(machine.clock().Now(), 10 * Calls::kShortestCall);
  EXPECT_EQ(streams.Query(stream), Error::kNotReady);
  ASSERT_EQ(streams.Synchronize(stream), Error::kSuccess);
  EXPECT_EQ(machine.clock().Now(), Calls::kShortestCall + 10 * configuration.DurationOf(MiB(1)));
}

TEST(LateClockTest, KernelTimeThatIsAskedForIsWhatEachTakes) {
  Configuration configuration{.kernel = microseconds(7), .late = true, .kernel_given = true};
  EXPECT_EQ(configuration.DurationOf(GiB(1)), microseconds(7));
  configuration.kernel_given = false;
  EXPECT_GT(configuration.DurationOf(GiB(1)), configuration.DurationOf(MiB(1)));
  EXPECT_GT(configuration.DurationOf(MiB(1), /*of_host=*/true), configuration.DurationOf(MiB(1)));
}

// Work on memory that never was.
Work FaultyWork(std::function<void()> run = nullptr) {
  Work work{WorkKind::kCopy, microseconds(5), std::move(run)};
  work.name = "copy";
  work.uses = {{Address(4096), Bytes(1), /*writes=*/true, /*must_be_mapped=*/true}};
  return work;
}

class LateOrderTest : public SimulatedMachine {
 protected:
  LateOrderTest() : SimulatedMachine({.order = true, .late = true}) {}
};

TEST_F(LateOrderTest, FaultCountsAsAViolationWhereOrderIsChecked) {
  ASSERT_EQ(streams_.Enqueue(NewStream(), FaultyWork()), Error::kSuccess);
  const uint64_t before = machine_.order()->violations();
  machine_.clock().Set(microseconds(5));
  EXPECT_EQ(machine_.order()->violations(), before + 1);
  EXPECT_NE(machine_.order()->Report().find("were never mapped"), std::string::npos);
}

class LateValuesTest : public SimulatedMachine {
 protected:
  LateValuesTest() : SimulatedMachine({.late = true, .late_data = false}) {}
};

TEST_F(LateValuesTest, DataMovesAtOnceWhereTheProgramComputesValuesAndOnlyChecksAreLate) {
  bool done = false;
  ASSERT_EQ(streams_.Enqueue(NewStream(), FaultyWork([&] { done = true; })), Error::kSuccess);
  EXPECT_TRUE(done);
  EXPECT_EQ(machine_.late()->faults(), 0u);
  machine_.clock().Set(microseconds(5));
  EXPECT_EQ(machine_.late()->faults(), 1u);
}

}  // namespace
}  // namespace frugal::sim
