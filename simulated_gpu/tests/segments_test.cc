#include "simulated_gpu/machine/segments.h"

#include <chrono>
#include <cstring>
#include <optional>

#include "gtest/gtest.h"
#include "simulated_gpu/tests/simulated_machine.h"

namespace frugal::sim {
namespace {

using Kind = Segments::Kind;

Configuration SmallGpu(int gpus = 1) { return {.memory = MiB(16), .context = MiB(4), .gpus = gpus}; }

class SegmentsTest : public SimulatedMachine {
 protected:
  SegmentsTest() : SimulatedMachine(SmallGpu()) {}
};

TEST_F(SegmentsTest, TakesWholePages) {
  Malloc(Bytes(1));
  EXPECT_EQ(used(), MiB(2));
  Malloc(MiB(2) + Bytes(1));
  EXPECT_EQ(used(), MiB(6));
}

TEST_F(SegmentsTest, RunsOutWhereTheContextBegins) {
  Malloc(MiB(12));
  Address start;
  for (const Bytes size : {Bytes(1), Bytes(int64_t{1} << 62)}) {
    EXPECT_EQ(TryMalloc(size, &start), Error::kOutOfMemory);
    EXPECT_EQ(start, Address());
    EXPECT_EQ(used(), MiB(12));
  }
  EXPECT_EQ(physical().free(), Bytes(0));
}

TEST_F(SegmentsTest, SharesCapacityWithVirtualMemory) {
  Malloc(MiB(8));
  HandleId handle = 0;
  EXPECT_EQ(memory_.Create(0, MiB(6), &handle), Error::kOutOfMemory);
  EXPECT_EQ(memory_.Create(0, MiB(4), &handle), Error::kSuccess);
}

TEST_F(SegmentsTest, FreedMemoryCanBeHadAgainAndReadsAsZero) {
  const Address first = Malloc(MiB(12));
  std::memset(first.pointer(), 1, static_cast<size_t>(MiB(12).count()));
  ASSERT_EQ(machine_.FreeSegment(first), Error::kSuccess);
  const Address second = Malloc(MiB(12));
  EXPECT_EQ(*static_cast<char*>(second.pointer()), 0);
}

TEST_F(SegmentsTest, PeakIsOfTheTimeSinceTheReset) {
  const Address segment = Malloc(MiB(8));
  ASSERT_EQ(machine_.FreeSegment(segment), Error::kSuccess);
  EXPECT_EQ(physical().peak(), MiB(8));
  physical().ResetPeak();
  EXPECT_EQ(physical().peak(), Bytes(0));
}

TEST_F(SegmentsTest, OnlyTheStartOfASegmentCanBeFreedAndOnce) {
  const Address segment = Malloc(MiB(4));
  EXPECT_EQ(machine_.FreeSegment(segment + MiB(2)), Error::kInvalidValue);
  EXPECT_EQ(machine_.FreeSegment(segment), Error::kSuccess);
  EXPECT_EQ(machine_.FreeSegment(segment), Error::kInvalidValue);
}

TEST_F(SegmentsTest, PeerIsLetIntoWhatThereIsOneByOne) {
  Machine machine(SmallGpu(2));
  Address first;
  Address second;
  ASSERT_EQ(machine.segments().Malloc(0, MiB(2), Kind::kDevice, &first), Error::kSuccess);
  ASSERT_EQ(machine.segments().Malloc(0, MiB(2), Kind::kDevice, &second), Error::kSuccess);
  EXPECT_EQ(machine.AccessOf(0, first), AddressSpace::Access::kReadWrite);
  EXPECT_EQ(machine.AccessOf(1, first), AddressSpace::Access::kNone);

  machine.calls().ResetCounters();
  ASSERT_EQ(machine.segments().EnablePeer(1, 0), Error::kSuccess);
  EXPECT_EQ(machine.calls().driver_time(), std::chrono::microseconds(2 * 37));
  EXPECT_EQ(machine.AccessOf(1, first), AddressSpace::Access::kReadWrite);
  EXPECT_EQ(machine.segments().EnablePeer(1, 0), Error::kPeerAccessAlreadyEnabled);

  ASSERT_EQ(machine.segments().DisablePeer(1, 0), Error::kSuccess);
  EXPECT_EQ(machine.AccessOf(1, first), AddressSpace::Access::kNone);
  EXPECT_EQ(machine.segments().DisablePeer(1, 0), Error::kPeerAccessNotEnabled);
}

TEST_F(SegmentsTest, AGpuHasEightPeersAtMost) {
  Machine machine(SmallGpu(10));
  for (int peer = 1; peer <= 8; ++peer) EXPECT_EQ(machine.segments().EnablePeer(0, peer), Error::kSuccess);
  EXPECT_EQ(machine.segments().EnablePeer(0, 9), Error::kTooManyPeers);
  EXPECT_EQ(machine.segments().EnablePeer(1, 9), Error::kSuccess) << "each GPU has its own";
  ASSERT_EQ(machine.segments().DisablePeer(0, 8), Error::kSuccess);
  EXPECT_EQ(machine.segments().EnablePeer(0, 9), Error::kSuccess);
}

TEST_F(SegmentsTest, IpcHandleIsTheSameMemoryInAnotherMachine) {
  Malloc(MiB(2));
  const Address segment = Malloc(MiB(4));
  SharedRange shared;
  ASSERT_EQ(machine_.segments().Export(segment, &shared), Error::kSuccess);
  const std::optional<SharedRange> received = SharedRange::FromIpcHandle(shared.ToIpcHandle());
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->size, MiB(4));

  Machine other(SmallGpu());
  Address imported;
  ASSERT_EQ(other.segments().OpenImported(*received, &imported), Error::kSuccess);
  std::strcpy(static_cast<char*>((segment + MiB(3)).pointer()), "shared");
  EXPECT_STREQ(static_cast<char*>((imported + MiB(3)).pointer()), "shared");
  EXPECT_EQ(other.segments().Free(imported), Error::kInvalidValue);
  EXPECT_EQ(other.segments().CloseImported(imported), Error::kSuccess);
}

TEST_F(SegmentsTest, BytesThatAreNoIpcHandleAreRefused) {
  EXPECT_FALSE(SharedRange::FromIpcHandle(IpcHandle{}).has_value());
  EXPECT_FALSE(SharedRange::FromDescriptor(-1).has_value());
}

using SegmentsDeathTest = SegmentsTest;

TEST_F(SegmentsDeathTest, UseAfterFreeFaults) {
  const Address segment = Malloc(MiB(2));
  auto* bytes = static_cast<volatile char*>(segment.pointer());
  bytes[0] = 1;
  ASSERT_EQ(machine_.FreeSegment(segment), Error::kSuccess);
  EXPECT_DEATH(bytes[0] = 2, "");
}

}  // namespace
}  // namespace frugal::sim
