#include "simulated_gpu/machine/virtual_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

#include "gtest/gtest.h"
#include "simulated_gpu/tests/simulated_machine.h"

namespace frugal::sim {
namespace {

Configuration TwoGpus() { return {.memory = MiB(32), .context = MiB(0), .gpus = 2}; }

class VirtualMemoryTest : public SimulatedMachine {
 protected:
  VirtualMemoryTest() : SimulatedMachine(TwoGpus()) {}

  static volatile uint64_t& WordAt(Address address) { return *static_cast<volatile uint64_t*>(address.pointer()); }
};

TEST_F(VirtualMemoryTest, MemoryOfANewHandleReadsAsZeroAfterAnotherWasReleased) {
  const Address range = Reserve(kPage);
  const HandleId first = Create();
  MapWithAccess(range, kPage, first);
  WordAt(range) = 7;
  ASSERT_EQ(memory_.Unmap(range, kPage), Error::kSuccess);
  ASSERT_EQ(memory_.Release(first), Error::kSuccess);
  MapWithAccess(range, kPage, Create());
  EXPECT_EQ(WordAt(range), 0u);
}

using VirtualMemoryDeathTest = VirtualMemoryTest;

TEST_F(VirtualMemoryDeathTest, AccessAfterUnmapFaults) {
  const Address range = Reserve(kPage);
  MapWithAccess(range, kPage, Create());
  WordAt(range) = 1;
  ASSERT_EQ(memory_.Unmap(range, kPage), Error::kSuccess);
  EXPECT_DEATH(WordAt(range) = 2, "");
}

TEST_F(VirtualMemoryDeathTest, AccessBeforeSetAccessFaults) {
  const Address range = Reserve(kPage);
  ASSERT_EQ(memory_.Map(range, kPage, Create()), Error::kSuccess);
  EXPECT_DEATH(WordAt(range) = 2, "");
}

TEST_F(VirtualMemoryDeathTest, WriteWithReadAccessFaults) {
  const Address range = Reserve(kPage);
  ASSERT_EQ(memory_.Map(range, kPage, Create()), Error::kSuccess);
  ASSERT_EQ(memory_.SetAccess(range, kPage, {{0, Access::kRead}}), Error::kSuccess);
  EXPECT_EQ(WordAt(range), 0u);
  EXPECT_DEATH(WordAt(range) = 2, "");
}

TEST_F(VirtualMemoryTest, RetainedHandleNeedsAsManyReleases) {
  const Address range = Reserve(kPage);
  const HandleId handle = Create();
  ASSERT_EQ(memory_.Map(range, kPage, handle), Error::kSuccess);
  HandleId retained = 0;
  ASSERT_EQ(memory_.Retain(range + KiB(4), &retained), Error::kSuccess);
  EXPECT_EQ(retained, handle);
  ASSERT_EQ(memory_.Unmap(range, kPage), Error::kSuccess);
  ASSERT_EQ(memory_.Release(handle), Error::kSuccess);
  EXPECT_EQ(used(), kPage);
  ASSERT_EQ(memory_.Release(handle), Error::kSuccess);
  EXPECT_EQ(used(), Bytes(0));
  EXPECT_EQ(memory_.Release(handle), Error::kInvalidValue);
}

TEST_F(VirtualMemoryTest, EachGpuHasItsOwnCapacity) {
  Create(MiB(32), 0);
  HandleId handle = 0;
  EXPECT_EQ(memory_.Create(0, kPage, &handle), Error::kOutOfMemory);
  EXPECT_EQ(memory_.Create(1, kPage, &handle), Error::kSuccess);
  EXPECT_EQ(memory_.Create(2, kPage, &handle), Error::kInvalidDevice);
  EXPECT_EQ(used(1), kPage);
}

TEST_F(VirtualMemoryTest, MapNeedsAReservedRangeAndALiveHandle) {
  const Address range = Reserve(kPage);
  const HandleId handle = Create(kPage * 2);
  EXPECT_EQ(memory_.Map(range, kPage * 2, handle), Error::kInvalidValue);
  EXPECT_EQ(memory_.Map(range + KiB(4), kPage, handle), Error::kInvalidValue);
  EXPECT_EQ(memory_.Map(range, kPage, handle + 1), Error::kInvalidValue);
  ASSERT_EQ(memory_.Release(handle), Error::kSuccess);
  EXPECT_EQ(memory_.Map(range, kPage, handle), Error::kInvalidValue);
}

TEST_F(VirtualMemoryTest, UnmapTakesWholeViewsWithoutAHole) {
  const Address range = Reserve(kPage * 4);
  ASSERT_EQ(memory_.Map(range, kPage * 2, Create(kPage * 2)), Error::kSuccess);
  ASSERT_EQ(memory_.Map(range + kPage * 3, kPage, Create()), Error::kSuccess);
  EXPECT_EQ(memory_.Unmap(range, kPage), Error::kInvalidValue);
  EXPECT_EQ(memory_.Unmap(range + kPage, kPage), Error::kInvalidValue);
  EXPECT_EQ(memory_.Unmap(range, kPage * 4), Error::kInvalidValue);
  EXPECT_TRUE(memory_.Find(range + kPage).has_value());
  EXPECT_EQ(memory_.Unmap(range, kPage * 2), Error::kSuccess);
  EXPECT_FALSE(memory_.Find(range + kPage).has_value());
}

TEST_F(VirtualMemoryTest, SetAccessNeedsTheWholeRangeMapped) {
  const Address range = Reserve(kPage * 2);
  ASSERT_EQ(memory_.Map(range, kPage, Create()), Error::kSuccess);
  EXPECT_EQ(memory_.SetAccess(range, kPage * 2, {{0, Access::kReadWrite}}), Error::kInvalidValue);
  Access access = Access::kRead;
  ASSERT_EQ(memory_.GetAccess(range, 0, &access), Error::kSuccess);
  EXPECT_EQ(access, Access::kNone);
}

TEST_F(VirtualMemoryTest, HandleIsMappedWhole) {
  const Address range = Reserve(kPage * 4);
  const HandleId handle = Create(kPage * 2);
  EXPECT_EQ(memory_.Map(range, kPage, handle), Error::kInvalidValue);
  EXPECT_EQ(memory_.Map(range, kPage * 3, handle), Error::kInvalidValue);
  EXPECT_EQ(memory_.Map(range, kPage * 2, handle), Error::kSuccess);
}

TEST_F(VirtualMemoryTest, NoCallReachesFromOneReservationIntoTheNext) {
  const Address both = Reserve(kPage * 4);
  ASSERT_EQ(memory_.Unreserve(both, kPage * 4), Error::kSuccess);
  Address start;
  for (const Address wish : {both, both + kPage * 2}) {
    ASSERT_EQ(memory_.Reserve(kPage * 2, kPage, wish, &start), Error::kSuccess);
    ASSERT_EQ(start, wish) << "they lie side by side";
    MapWithAccess(wish, kPage * 2, Create(kPage * 2));
  }
  EXPECT_EQ(memory_.SetAccess(both, kPage * 4, {{1, Access::kReadWrite}}), Error::kInvalidValue);
  EXPECT_EQ(memory_.Unmap(both, kPage * 4), Error::kInvalidValue);
  for (const Address one : {both, both + kPage * 2}) EXPECT_EQ(memory_.Unmap(one, kPage * 2), Error::kSuccess);
}

TEST_F(VirtualMemoryTest, AccessIsKeptForEachGpu) {
  const Address range = Reserve(kPage);
  MapWithAccess(range, kPage, Create());
  ASSERT_EQ(memory_.SetAccess(range, kPage, {{1, Access::kRead}}), Error::kSuccess);
  Access access = Access::kNone;
  ASSERT_EQ(memory_.GetAccess(range, 0, &access), Error::kSuccess);
  EXPECT_EQ(access, Access::kReadWrite);
  ASSERT_EQ(memory_.GetAccess(range, 1, &access), Error::kSuccess);
  EXPECT_EQ(access, Access::kRead);
}

TEST_F(VirtualMemoryTest, ViewIsInReachOfTheGpusThatWereGivenAccess) {
  const Address range = Reserve(kPage * 2);
  MapWithAccess(range, kPage, Create());
  EXPECT_EQ(machine_.AccessOf(0, range + Bytes(64)), Access::kReadWrite);
  EXPECT_EQ(machine_.AccessOf(1, range), Access::kNone) << "peer access is for segments";
  ASSERT_EQ(machine_.segments().EnablePeer(1, 0), Error::kSuccess);
  EXPECT_EQ(machine_.AccessOf(1, range), Access::kNone);
  ASSERT_EQ(memory_.SetAccess(range, kPage, {{1, Access::kRead}}), Error::kSuccess);
  EXPECT_EQ(machine_.AccessOf(1, range), Access::kRead);
  EXPECT_EQ(machine_.AccessOf(0, range + kPage), Access::kNone) << "nothing is mapped there";
}

TEST_F(VirtualMemoryTest, UnmapThatStopsHalfWayHasUnmappedTheFirstHalf) {
  const Address range = Reserve(kPage * 4);
  const HandleId handle = Create();
  for (int i = 0; i < 4; ++i) MapWithAccess(range + kPage * i, kPage, handle);
  machine_.calls().SetFaults(*FaultPlan::Parse("unmap@1=partial_unknown,unmap@2=partial_unknown"));
  EXPECT_EQ(memory_.Unmap(range, kPage * 4), Error::kUnknown);
  EXPECT_FALSE(memory_.Find(range).has_value());
  EXPECT_FALSE(memory_.Find(range + kPage).has_value());
  EXPECT_TRUE(memory_.Find(range + kPage * 2).has_value());
  EXPECT_EQ(machine_.mapped_handles().taken(), 2);
  EXPECT_EQ(memory_.Unmap(range + kPage * 2, kPage), Error::kUnknown) << "of one view there is no half";
  EXPECT_TRUE(memory_.Find(range + kPage * 2).has_value());
  EXPECT_EQ(memory_.Unmap(range + kPage * 2, kPage * 2), Error::kSuccess);
}

TEST_F(VirtualMemoryTest, EachHandleAndEachGpuOfARangeCosts) {
  const Address range = Reserve(kPage * 3);
  const HandleId handle = Create();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(memory_.Map(range + kPage * i, kPage, handle), Error::kSuccess);
  machine_.calls().ResetCounters();
  ASSERT_EQ(memory_.SetAccess(range, kPage * 3, {{0, Access::kReadWrite}, {1, Access::kRead}}), Error::kSuccess);
  EXPECT_EQ(machine_.calls().driver_time(), std::chrono::microseconds(6 * 37));
  machine_.calls().ResetCounters();
  ASSERT_EQ(memory_.Unmap(range, kPage * 3), Error::kSuccess);
  EXPECT_EQ(machine_.calls().driver_time(), std::chrono::microseconds(3 * 30));
}

TEST_F(VirtualMemoryTest, LargeHandleCostsByItsSizeToCreateAndAsOneOtherwise) {
  const Address range = Reserve(kPage * 9);
  machine_.calls().ResetCounters();
  const HandleId large = Create(kPage * 8);
  // 25 and 2 for each MiB.
  EXPECT_EQ(machine_.calls().driver_time(), std::chrono::microseconds(25 + 2 * 16));
  ASSERT_EQ(memory_.Map(range, kPage * 8, large), Error::kSuccess);
  ASSERT_EQ(memory_.Map(range + kPage * 8, kPage, Create()), Error::kSuccess);
  machine_.calls().ResetCounters();
  ASSERT_EQ(memory_.SetAccess(range, kPage * 9, {{0, Access::kReadWrite}}), Error::kSuccess);
  EXPECT_EQ(machine_.calls().driver_time(), std::chrono::microseconds(2 * 37));
  machine_.calls().ResetCounters();
  ASSERT_EQ(memory_.Unmap(range, kPage * 9), Error::kSuccess);
  EXPECT_EQ(machine_.calls().driver_time(), std::chrono::microseconds(2 * 30));
}

TEST_F(VirtualMemoryTest, RangeIsUnreservedWholeAndEmptyOrNotAtAll) {
  const Address range = Reserve(kPage * 2);
  ASSERT_EQ(memory_.Map(range + kPage, kPage, Create()), Error::kSuccess);
  EXPECT_EQ(memory_.Unreserve(range, kPage * 2), Error::kInvalidValue);
  ASSERT_EQ(memory_.Unmap(range + kPage, kPage), Error::kSuccess);
  EXPECT_EQ(memory_.Unreserve(range, kPage), Error::kInvalidValue);
  EXPECT_EQ(memory_.Unreserve(range, kPage * 2), Error::kSuccess);
  EXPECT_EQ(memory_.Unreserve(range, kPage * 2), Error::kInvalidValue);
}

TEST_F(VirtualMemoryTest, WishedForAddressIsGivenIfItIsFree) {
  const Address range = Reserve(kPage * 4);
  ASSERT_EQ(memory_.Unreserve(range, kPage * 4), Error::kSuccess);
  Address start;
  ASSERT_EQ(memory_.Reserve(kPage, kPage, range + kPage, &start), Error::kSuccess);
  EXPECT_EQ(start, range + kPage);
  Address elsewhere;
  ASSERT_EQ(memory_.Reserve(kPage, kPage, range + kPage, &elsewhere), Error::kSuccess);
  EXPECT_NE(elsewhere, start);
}

TEST_F(VirtualMemoryTest, ReservationsAreAligned) {
  for (int i = 0; i < 3; ++i) {
    Address start;
    ASSERT_EQ(memory_.Reserve(kPage, GiB(1), Address(), &start), Error::kSuccess);
    EXPECT_EQ(start.value() % static_cast<uint64_t>(GiB(1).count()), 0u);
  }
  Address start;
  EXPECT_EQ(memory_.Reserve(KiB(4), kPage, Address(), &start), Error::kInvalidValue);
}

TEST_F(VirtualMemoryTest, ExportedHandleIsTheSameMemoryWhereItIsImported) {
  const HandleId handle = Create(kPage * 2);
  const Address range = Reserve(kPage * 4);
  MapWithAccess(range, kPage * 2, handle);
  int fd = -1;
  ASSERT_EQ(memory_.Export(handle, &fd), Error::kSuccess);

  Machine other(TwoGpus());
  HandleId imported = 0;
  ASSERT_EQ(other.virtual_memory().Import(fd, &imported), Error::kSuccess);
  close(fd);
  Address view;
  ASSERT_EQ(other.virtual_memory().Reserve(kPage * 2, kPage, Address(), &view), Error::kSuccess);
  ASSERT_EQ(other.virtual_memory().Map(view, kPage * 2, imported), Error::kSuccess);
  ASSERT_EQ(other.virtual_memory().SetAccess(view, kPage * 2, {{0, Access::kReadWrite}}), Error::kSuccess);
  WordAt(range + kPage) = 99;
  EXPECT_EQ(WordAt(view + kPage), 99u);
  EXPECT_EQ(other.gpu(0).memory().used(), Bytes(0));

  // What was exported stays with the importer when the exporter is through with it.
  ASSERT_EQ(memory_.Unmap(range, kPage * 2), Error::kSuccess);
  ASSERT_EQ(memory_.Release(handle), Error::kSuccess);
  EXPECT_EQ(used(), Bytes(0));
  EXPECT_EQ(WordAt(view + kPage), 99u);
}

TEST_F(VirtualMemoryTest, DescriptorsOfOtherFilesAreNotImported) {
  HandleId handle = 0;
  const int other = open("/dev/null", O_RDWR);
  EXPECT_EQ(memory_.Import(other, &handle), Error::kInvalidValue);
  close(other);
  EXPECT_EQ(memory_.Import(-1, &handle), Error::kInvalidValue);
}

TEST_F(VirtualMemoryTest, UnmapUnderAStreamsWorkIsNoted) {
  const Address range = Reserve(kPage * 2);
  ASSERT_EQ(memory_.Map(range, kPage, Create()), Error::kSuccess);
  ASSERT_EQ(memory_.Map(range + kPage, kPage, Create(kPage, 1)), Error::kSuccess);
  streams_.SetBusyUntil(NewStream(), Nanoseconds(10));
  ASSERT_EQ(memory_.Unmap(range + kPage, kPage), Error::kSuccess);
  EXPECT_EQ(machine_.calls().count(CallKind::kUnmapWhileBusy), 0u);
  ASSERT_EQ(memory_.Unmap(range, kPage), Error::kSuccess);
  EXPECT_EQ(machine_.calls().count(CallKind::kUnmapWhileBusy), 1u);
}

class VirtualMemoryWithoutBackingTest : public SimulatedMachine {
 protected:
  VirtualMemoryWithoutBackingTest()
      : SimulatedMachine({.memory = GiB(70), .context = MiB(0), .backing = Backing::kNone}) {}
};

TEST_F(VirtualMemoryWithoutBackingTest, AGpuOfThousandsOfHandlesInAnyOrderFits) {
  constexpr int64_t kHandles = 35840;
  const Address range = Reserve(kPage * kHandles);
  for (int64_t i = 0; i < kHandles; ++i) {
    const int64_t place = i * 17 % kHandles;
    ASSERT_EQ(memory_.Map(range + kPage * place, kPage, Create()), Error::kSuccess);
  }
  ASSERT_EQ(memory_.SetAccess(range, kPage * kHandles, {{0, Access::kReadWrite}}), Error::kSuccess);
  EXPECT_EQ(physical().free(), Bytes(0));
  ASSERT_EQ(memory_.Unmap(range, kPage * kHandles), Error::kSuccess);
}

TEST_F(VirtualMemoryWithoutBackingTest, NothingCanBeExported) {
  int fd = -1;
  EXPECT_EQ(memory_.Export(Create(), &fd), Error::kNotSupported);
}

}  // namespace
}  // namespace frugal::sim
