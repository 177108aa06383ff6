// Work that touches the same memory without order is found, and nothing else is.

#include "simulated_gpu/machine/order_checker.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/simulated_device.h"
#include "simulated_gpu/tests/simulated_machine.h"

namespace frugal::sim {
namespace {

constexpr ::frugal::Stream kMain{1};
constexpr ::frugal::Stream kSide{2};
constexpr ::frugal::Stream kThird{3};

class OrderCheckerTest : public testing::Test {
 protected:
  OrderCheckerTest() : device_({.memory = MiB(64), .order = true}) {}
  ~OrderCheckerTest() override { EXPECT_GT(device_.order_accesses(), 0u); }

  // `pages` handles side by side at new addresses.
  Address Mapped(int64_t pages) {
    const Address start = *device_.Reserve(kPageSize * pages);
    for (int64_t page = 0; page < pages; ++page) {
      handles_.push_back(*device_.Create(kPageSize));
      EXPECT_TRUE(device_.Map(start + kPageSize * page, kPageSize, handles_.back()).ok());
    }
    EXPECT_TRUE(device_.SetAccess(start, kPageSize * pages).ok());
    return start;
  }
  Address MappedAgain(PhysicalHandle handle, Bytes size = kPageSize) {
    const Address start = *device_.Reserve(size);
    EXPECT_TRUE(device_.Map(start, size, handle).ok());
    EXPECT_TRUE(device_.SetAccess(start, size).ok());
    return start;
  }
  void Write(::frugal::Stream stream, Address start, Bytes size) { device_.Touch(stream, start, size, true, "write"); }
  void Read(::frugal::Stream stream, Address start, Bytes size) { device_.Touch(stream, start, size, false, "read"); }
  // `waiter` waits for what `waited` has been told so far.
  void Wait(::frugal::Stream waiter, ::frugal::Stream waited) {
    const ::frugal::Event event = *device_.Record(waited);
    EXPECT_TRUE(device_.StreamWait(waiter, event).ok());
    device_.Recycle(event);
  }
  uint64_t violations() const { return device_.order_violations(); }

  SimulatedDevice device_;
  std::vector<PhysicalHandle> handles_;
};

TEST_F(OrderCheckerTest, AStreamsOwnWorkIsInOrder) {
  const Address memory = Mapped(2);
  Write(kMain, memory, MiB(4));
  Read(kMain, memory, MiB(4));
  Write(kMain, memory, MiB(4));
  EXPECT_EQ(violations(), 0u) << device_.order_report();
}

TEST_F(OrderCheckerTest, AWriteBesideAWriteOfAnotherStreamIsAViolation) {
  const Address memory = Mapped(1);
  Write(kMain, memory, MiB(1));
  Write(kSide, memory, MiB(1));
  EXPECT_EQ(violations(), 1u);
}

TEST_F(OrderCheckerTest, AWriteToOnePartLeavesTheReadsOfTheOther) {
  const Address memory = Mapped(1);
  Read(kSide, memory, MiB(2));
  Wait(kMain, kSide);
  Write(kMain, memory, MiB(1));
  EXPECT_EQ(violations(), 0u) << device_.order_report();
  Write(kThird, memory + MiB(1), MiB(1));
  EXPECT_EQ(violations(), 1u);
}

TEST_F(OrderCheckerTest, AQueryTellsTheHostOfItsOwnStreamAlone) {
  const Address memory = Mapped(2);
  Write(kMain, memory, MiB(2));
  Write(kSide, memory + MiB(2), MiB(2));
  EXPECT_TRUE(*device_.HasPassed(*device_.Record(kMain)));
  Write(kThird, memory, MiB(2));
  EXPECT_EQ(violations(), 0u) << device_.order_report();
  Write(kThird, memory + MiB(2), MiB(2));
  EXPECT_EQ(violations(), 1u);
}

TEST_F(OrderCheckerTest, AReadBesideAWriteIsAViolationInEitherOrder) {
  const Address memory = Mapped(2);
  Write(kMain, memory, MiB(1));
  Read(kSide, memory, MiB(1));
  EXPECT_EQ(violations(), 1u);
  Read(kMain, memory + MiB(2), MiB(1));
  Write(kSide, memory + MiB(2), MiB(1));
  EXPECT_EQ(violations(), 2u);
}

TEST_F(OrderCheckerTest, ReadsOfTwoStreamsNeedNoOrder) {
  const Address memory = Mapped(1);
  Read(kMain, memory, MiB(1));
  Read(kSide, memory, MiB(1));
  EXPECT_EQ(violations(), 0u);
}

TEST_F(OrderCheckerTest, BytesBesideEachOtherNeedNoOrderAndOneByteInCommonDoes) {
  const Address memory = Mapped(1);
  Write(kMain, memory, Bytes(1000));
  Write(kSide, memory + Bytes(1000), Bytes(1000));
  EXPECT_EQ(violations(), 0u) << device_.order_report();
  Write(kThird, memory + Bytes(1999), Bytes(1000));
  EXPECT_EQ(violations(), 1u);
}

TEST_F(OrderCheckerTest, AllReadersSinceTheLastWriteCount) {
  const Address memory = Mapped(1);
  Read(kMain, memory, MiB(1));
  Read(kSide, memory, MiB(1));
  Wait(kThird, kSide);
  Write(kThird, memory, MiB(1));
  EXPECT_EQ(violations(), 1u) << "with the read of the first stream alone";
}

TEST_F(OrderCheckerTest, AStreamWaitOrdersAndSoDoesOneThroughAThirdStream) {
  const Address memory = Mapped(1);
  Write(kMain, memory, MiB(1));
  Wait(kThird, kMain);
  Wait(kSide, kThird);
  Write(kSide, memory, MiB(1));
  EXPECT_EQ(violations(), 0u) << device_.order_report();
}

TEST_F(OrderCheckerTest, AStreamWaitOrdersOnlyWhatCameBeforeItsEvent) {
  const Address memory = Mapped(1);
  const ::frugal::Event event = *device_.Record(kMain);
  Write(kMain, memory, MiB(1));
  ASSERT_TRUE(device_.StreamWait(kSide, event).ok());
  Write(kSide, memory, MiB(1));
  EXPECT_EQ(violations(), 1u);
}

TEST_F(OrderCheckerTest, WorkThatNobodyHasAskedForIsUnorderedThoughItIsDone) {
  const Address memory = Mapped(1);
  Write(kMain, memory, MiB(1));
  const ::frugal::Event event = *device_.Record(kMain);
  device_.AdvanceTo(std::chrono::seconds(1));
  Write(kSide, memory, MiB(1));
  EXPECT_EQ(violations(), 1u);
  ASSERT_TRUE(*device_.HasPassed(event));
  Write(kThird, memory + MiB(1), MiB(1));
  EXPECT_EQ(violations(), 1u);
}

TEST_F(OrderCheckerTest, WhatTheHostHasSeenDoneIsOrderedForEveryStream) {
  const Address memory = Mapped(2);
  Write(kMain, memory, MiB(1));
  ASSERT_TRUE(*device_.HasPassed(*device_.Record(kMain)));
  Write(kSide, memory, MiB(1));
  ASSERT_TRUE(device_.Synchronize(*device_.Record(kSide)).ok());
  Write(kThird, memory, MiB(1));
  EXPECT_EQ(violations(), 0u) << device_.order_report();
}

TEST_F(OrderCheckerTest, AnEventThatHasNotPassedOrdersNothing) {
  const Address memory = Mapped(1);
  Write(kMain, memory, MiB(1));
  device_.MakeBusyUntil(kMain, std::chrono::microseconds(1));
  ASSERT_FALSE(*device_.HasPassed(*device_.Record(kMain)));
  Write(kSide, memory, MiB(1));
  EXPECT_EQ(violations(), 1u);
}

TEST_F(OrderCheckerTest, OneHandleAtTwoAddressesIsOneMemory) {
  const Address memory = Mapped(1);
  const Address again = MappedAgain(handles_[0]);
  Write(kMain, memory, MiB(1));
  Write(kSide, again, MiB(1));
  EXPECT_EQ(violations(), 1u);
  Write(kSide, memory + MiB(1), MiB(1));
  Read(kMain, again + MiB(1), MiB(1));
  EXPECT_EQ(violations(), 2u);
}

TEST_F(OrderCheckerTest, EachPageOfALargeHandleIsOneMemoryAtBothItsAddresses) {
  const PhysicalHandle large = *device_.Create(kPageSize * 4);
  const Address first = MappedAgain(large, kPageSize * 4);
  const Address second = MappedAgain(large, kPageSize * 4);
  Write(kMain, first, kPageSize * 4);
  Write(kSide, second + kPageSize * 3, kPageSize);
  EXPECT_EQ(violations(), 1u);
  Wait(kThird, kMain);
  Write(kThird, second, kPageSize * 3);
  EXPECT_EQ(violations(), 1u) << device_.order_report();
}

TEST_F(OrderCheckerTest, ASegmentIsNotFreedUnderWorkThatUsesIt) {
  const Address used = *device_.Malloc(MiB(2));
  const Address waited_for = *device_.Malloc(MiB(2));
  Write(kMain, waited_for, MiB(2));
  ASSERT_TRUE(device_.Synchronize(*device_.Record(kMain)).ok());
  Write(kMain, used, MiB(2));
  ASSERT_TRUE(device_.Free(waited_for).ok());
  EXPECT_EQ(violations(), 0u) << device_.order_report();
  ASSERT_TRUE(device_.Free(used).ok());
  EXPECT_EQ(violations(), 1u) << "the driver may wait, and may not";
}

TEST_F(OrderCheckerTest, AViewIsNotUnmappedUnderWorkThatUsesIt) {
  const Address memory = Mapped(1);
  const Address again = MappedAgain(handles_[0]);
  Write(kMain, memory, MiB(1));
  Write(kMain, again, MiB(1));
  const ::frugal::Event event = *device_.Record(kMain);
  ASSERT_TRUE(device_.Unmap(memory, kPageSize).ok());
  EXPECT_EQ(violations(), 1u) << "the work is in order, but nobody knows that it is done";
  ASSERT_TRUE(device_.Synchronize(event).ok());
  ASSERT_TRUE(device_.Unmap(again, kPageSize).ok());
  EXPECT_EQ(violations(), 1u) << device_.order_report();
}

TEST_F(OrderCheckerTest, MemoryThatIsNotMappedMustNotBeTouched) {
  const Address memory = Mapped(1);
  ASSERT_TRUE(device_.Unmap(memory, kPageSize).ok());
  Write(kMain, memory, MiB(1));
  EXPECT_EQ(violations(), 1u);
  EXPECT_NE(device_.order_report().find("1048576 bytes are not mapped"), std::string::npos) << device_.order_report();
}

TEST_F(OrderCheckerTest, NewHandlesHaveNoPast) {
  const Address memory = Mapped(1);
  Write(kMain, memory, MiB(1));
  ASSERT_TRUE(device_.Synchronize(*device_.Record(kMain)).ok());
  ASSERT_TRUE(device_.Unmap(memory, kPageSize).ok());
  ASSERT_TRUE(device_.Release(handles_[0]).ok());
  Write(kSide, Mapped(1), MiB(1));
  EXPECT_EQ(violations(), 0u) << device_.order_report();
}

TEST_F(OrderCheckerTest, APairIsToldOnceHoweverManyPagesItHasInCommon) {
  const Address memory = Mapped(4);
  Write(kMain, memory, MiB(8));
  Read(kSide, memory, MiB(8));
  EXPECT_EQ(violations(), 1u);
}

TEST_F(OrderCheckerTest, TheReportNamesBothOperationsAndWhatIsLacking) {
  const Address memory = Mapped(1);
  device_.Touch(kMain, memory, MiB(1), /*writes=*/true, "producer");
  device_.Touch(kSide, memory, KiB(1), /*writes=*/false, "consumer");
  const std::string report = device_.order_report();
  for (const char* part : {"'consumer' (operation 1 of stream 2) reads 1024 bytes at 0x",
                           "'producer' (operation 1 of stream 1) writes 1048576 bytes at 0x",
                           "stream 2 has seen stream 1 up to operation 0, the host up to 0"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << " is not in: " << report;
  }
}

// Legacy streams and graphs, which the port does not have.
class OrderOfStreams : public SimulatedMachine {
 protected:
  OrderOfStreams() : SimulatedMachine({.backing = Backing::kNone, .order = true}) {}

  void Write(Stream& stream) {
    Work work;
    work.name = "write";
    work.uses = {{memory_, MiB(1), /*writes=*/true}};
    ASSERT_EQ(streams_.Enqueue(stream, work), Error::kSuccess);
  }
  void LaunchGraph(Stream& stream) {
    Work work;
    work.kind = WorkKind::kGraph;
    work.graph = graph_;
    ASSERT_EQ(streams_.Launch(stream, work), Error::kSuccess);
  }
  void End(Stream& stream) { ASSERT_EQ(streams_.captures().End(stream, &graph_), Error::kSuccess); }
  uint64_t violations() { return machine_.order()->violations(); }

  const Address memory_ = Malloc(kPage);
  std::shared_ptr<Graph> graph_;
};

TEST_F(OrderOfStreams, TheLegacyStreamIsOrderedWithBlockingStreamsOnly) {
  Stream& blocking = NewStream(Stream::Kind::kBlocking);
  Stream& legacy = LegacyStream();
  Write(blocking);
  Write(legacy);
  Write(blocking);
  EXPECT_EQ(violations(), 0u) << machine_.order()->Report();
  Write(NewStream());
  EXPECT_EQ(violations(), 1u);
}

TEST_F(OrderOfStreams, BlockingStreamsAreOrderedByTheLegacyStreamsWorkBetweenThem) {
  Stream& first = NewStream(Stream::Kind::kBlocking);
  Stream& second = NewStream(Stream::Kind::kBlocking);
  Write(first);
  Write(LegacyStream());
  Write(second);
  EXPECT_EQ(violations(), 0u) << machine_.order()->Report();
  Write(first);
  EXPECT_EQ(violations(), 1u) << "nothing of the legacy stream lies between these";
}

TEST_F(OrderOfStreams, SynchronizingAStreamOrQueryingItOrdersItsWork) {
  Stream& first = NewStream();
  Stream& second = NewStream();
  Write(first);
  ASSERT_EQ(streams_.Synchronize(first), Error::kSuccess);
  Write(second);
  ASSERT_EQ(streams_.Query(second), Error::kSuccess);
  Write(first);
  ASSERT_EQ(streams_.of(0).Synchronize(), Error::kSuccess);
  Write(second);
  EXPECT_EQ(violations(), 0u) << machine_.order()->Report();
}

TEST_F(OrderOfStreams, WaitingForTheGpuCoversStreamsThatAreGone) {
  Stream& gone = NewStream();
  Write(gone);
  ASSERT_EQ(streams_.Destroy(&gone), Error::kSuccess);
  streams_.of(0).Wait();
  Write(NewStream());
  EXPECT_EQ(violations(), 0u) << machine_.order()->Report();
}

TEST_F(OrderOfStreams, BranchesOfAGraphAreOrderedByTheirDependenciesAlone) {
  Stream& origin = NewStream();
  Stream& side = NewStream();
  Begin(origin, CaptureMode::kRelaxed);
  Wait(side, origin);
  Write(origin);
  Write(side);
  Wait(origin, side);
  Write(origin);
  End(origin);
  EXPECT_EQ(violations(), 0u) << "recorded work is not done yet";
  LaunchGraph(origin);
  EXPECT_EQ(violations(), 1u) << machine_.order()->Report();
}

TEST_F(OrderOfStreams, AGraphComesAfterWhatItsStreamDidAndBeforeWhatItDoesNext) {
  Stream& origin = NewStream();
  Begin(origin, CaptureMode::kRelaxed);
  Write(origin);
  Write(origin);
  End(origin);
  Write(origin);
  LaunchGraph(origin);
  LaunchGraph(origin);
  Write(origin);
  EXPECT_EQ(violations(), 0u) << machine_.order()->Report();
  LaunchGraph(NewStream());
  EXPECT_EQ(violations(), 1u) << "of the first write with the last; the second comes after the first";
}

}  // namespace
}  // namespace frugal::sim
