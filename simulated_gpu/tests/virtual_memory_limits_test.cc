// What the driver and the host have only so many of: mapped handles, the host's mappings, addresses.

#include <cstdint>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/machine.h"
#include "simulated_gpu/machine/virtual_memory.h"

namespace frugal::sim {
namespace {

using Access = VirtualMemory::Access;
using HandleId = VirtualMemory::HandleId;

constexpr Bytes kPage = kPageSize;

class VirtualMemoryLimitsTest : public ::testing::Test {
 protected:
  static Configuration WithLimits(int64_t mapped_handles, int64_t host_mappings, Bytes addresses = GiB(1)) {
    return {.memory = MiB(32),
            .context = MiB(0),
            .gpus = 2,
            .mapped_handles = mapped_handles,
            .addresses = addresses,
            .host_mappings = host_mappings};
  }
  // Four views of one handle, out of reach.
  static Address MapFour(VirtualMemory& memory) {
    Address range;
    HandleId handle = 0;
    EXPECT_EQ(memory.Reserve(kPage * 4, kPage, Address(), &range), Error::kSuccess);
    EXPECT_EQ(memory.Create(0, kPage, &handle), Error::kSuccess);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(memory.Map(range + kPage * i, kPage, handle), Error::kSuccess);
    return range;
  }
  static constexpr VirtualMemory::GpuAccess kFirst = {0, Access::kReadWrite};
  static constexpr VirtualMemory::GpuAccess kSecond = {1, Access::kRead};
};

TEST_F(VirtualMemoryLimitsTest, ViewTakesAMappedHandleForEachGpuThatMayReachIt) {
  Machine machine(WithLimits(6, 100));
  VirtualMemory& memory = machine.virtual_memory();
  const Address range = MapFour(memory);
  EXPECT_EQ(machine.mapped_handles().taken(), 0) << "nobody reaches it yet";
  ASSERT_EQ(memory.SetAccess(range, kPage * 4, {kFirst}), Error::kSuccess);
  ASSERT_EQ(memory.SetAccess(range, kPage * 4, {kFirst}), Error::kSuccess);
  EXPECT_EQ(machine.mapped_handles().taken(), 4);
  EXPECT_EQ(memory.SetAccess(range, kPage * 3, {kSecond}), Error::kOutOfMemory);
  EXPECT_EQ(machine.AccessOf(1, range), Access::kNone) << "what fails has changed nothing";
  ASSERT_EQ(memory.SetAccess(range, kPage * 2, {kSecond}), Error::kSuccess);
  EXPECT_EQ(machine.mapped_handles().taken(), 6);
  ASSERT_EQ(memory.SetAccess(range, kPage, {{1, Access::kNone}}), Error::kSuccess);
  EXPECT_EQ(machine.mapped_handles().taken(), 5);
  ASSERT_EQ(memory.Unmap(range, kPage * 4), Error::kSuccess);
  EXPECT_EQ(machine.mapped_handles().taken(), 0);
}

TEST_F(VirtualMemoryLimitsTest, LargeHandleIsOneMappedHandle) {
  Machine machine(WithLimits(2, 100));
  VirtualMemory& memory = machine.virtual_memory();
  Address range;
  HandleId large = 0;
  ASSERT_EQ(memory.Reserve(kPage * 8, kPage, Address(), &range), Error::kSuccess);
  ASSERT_EQ(memory.Create(0, kPage * 8, &large), Error::kSuccess);
  ASSERT_EQ(memory.Map(range, kPage * 8, large), Error::kSuccess);
  ASSERT_EQ(memory.SetAccess(range, kPage * 8, {kFirst, kSecond}), Error::kSuccess);
  EXPECT_EQ(machine.mapped_handles().taken(), 2);
}

TEST_F(VirtualMemoryLimitsTest, SegmentTakesAMappedHandleForEachPeer) {
  Machine machine(WithLimits(3, 100));
  Segments& segments = machine.segments();
  Address before;
  Address after;
  ASSERT_EQ(segments.Malloc(0, kPage, Segments::Kind::kDevice, &before), Error::kSuccess);
  ASSERT_EQ(segments.EnablePeer(1, 0), Error::kSuccess);
  EXPECT_EQ(machine.mapped_handles().taken(), 2);
  const Bytes used = machine.gpu(0).memory().used();
  EXPECT_EQ(segments.Malloc(0, kPage, Segments::Kind::kDevice, &after), Error::kOutOfMemory);
  EXPECT_EQ(machine.gpu(0).memory().used(), used);
  ASSERT_EQ(segments.DisablePeer(1, 0), Error::kSuccess);
  ASSERT_EQ(segments.Malloc(0, kPage, Segments::Kind::kDevice, &after), Error::kSuccess);
  EXPECT_EQ(segments.EnablePeer(1, 0), Error::kOutOfMemory);
  EXPECT_EQ(machine.AccessOf(1, before), Access::kNone);
  ASSERT_EQ(machine.FreeSegment(before), Error::kSuccess);
  ASSERT_EQ(machine.FreeSegment(after), Error::kSuccess);
  EXPECT_EQ(machine.mapped_handles().taken(), 0);
}

TEST_F(VirtualMemoryLimitsTest, AtTheHostsLimitRequestsFailAndWhatWasThereStays) {
  Machine machine(WithLimits(100, 3));
  VirtualMemory& memory = machine.virtual_memory();
  const Address range = MapFour(memory);
  EXPECT_EQ(memory.SetAccess(range, kPage * 4, {kFirst}), Error::kOutOfMemory);
  EXPECT_EQ(machine.mapped_handles().taken(), 0);
  ASSERT_EQ(memory.SetAccess(range, kPage * 3, {kFirst}), Error::kSuccess);
  ASSERT_EQ(memory.SetAccess(range, kPage * 3, {kSecond}), Error::kSuccess) << "the host's mapping is there";
  Address segment;
  EXPECT_EQ(machine.segments().Malloc(0, kPage, Segments::Kind::kDevice, &segment), Error::kOutOfMemory);
  ASSERT_EQ(memory.Unmap(range, kPage), Error::kSuccess);
  EXPECT_EQ(machine.segments().Malloc(0, kPage, Segments::Kind::kDevice, &segment), Error::kSuccess);
}

TEST_F(VirtualMemoryLimitsTest, AddressesRunOutAndComeBack) {
  Machine machine(WithLimits(100, 100, kPage * 4));
  VirtualMemory& memory = machine.virtual_memory();
  Address three;
  Address two;
  ASSERT_EQ(memory.Reserve(kPage * 3, kPage, Address(), &three), Error::kSuccess);
  EXPECT_EQ(memory.Reserve(kPage * 2, kPage, Address(), &two), Error::kOutOfMemory);
  EXPECT_EQ(machine.segments().Malloc(0, kPage * 2, Segments::Kind::kDevice, &two), Error::kOutOfMemory);
  EXPECT_EQ(machine.gpu(0).memory().used(), Bytes(0));
  ASSERT_EQ(memory.Unreserve(three, kPage * 3), Error::kSuccess);
  EXPECT_EQ(memory.Reserve(kPage * 4, kPage, Address(), &two), Error::kSuccess);
}

}  // namespace
}  // namespace frugal::sim
