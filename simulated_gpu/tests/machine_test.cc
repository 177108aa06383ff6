#include "simulated_gpu/machine/machine.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

TEST(MachineTest, AForkedChildHasNoGpuAndCallsFail) {
  Machine machine(Configuration{.memory = GiB(1)});
  ASSERT_TRUE(machine.HasGpu(0));
  VirtualMemory::HandleId handle = 0;
  ASSERT_EQ(machine.virtual_memory().Create(0, kPageSize, &handle), Error::kSuccess);
  const uint64_t releases = machine.calls().count(CallKind::kRelease);

  machine.BecomeForkedChild();
  EXPECT_FALSE(machine.HasGpu(0));
  EXPECT_EQ(machine.NoGpuError(), Error::kNotInitialized);
  EXPECT_EQ(machine.virtual_memory().Release(handle), Error::kNotInitialized);
  EXPECT_EQ(machine.calls().count(CallKind::kRelease), releases + 1) << "the attempt is counted";
}

TEST(MachineTest, AHostThatIsDrivenBeyondItsMemoryIsNoted) {
  Configuration configuration;
  configuration.memory = GiB(64);
  configuration.backing = Backing::kNone;
  configuration.host.on = true;
  configuration.host.others = GiB(50);
  configuration.host.cache = GiB(8);
  Machine machine(configuration);
  std::string told;
  machine.unified_host().OnOverload([&told](const std::string& what) { told = what; });

  Bytes free;
  Bytes total;
  ASSERT_EQ(machine.GetMemoryInfo(0, &free, &total), Error::kSuccess);
  EXPECT_EQ(total, GiB(64));
  EXPECT_LT(free, GiB(14 - 8)) << "what is cached is not free";

  Address segment;
  EXPECT_EQ(machine.segments().Malloc(0, GiB(10), Segments::Kind::kDevice, &segment), Error::kSuccess);
  EXPECT_EQ(machine.unified_host().overloads(), 0);
  EXPECT_EQ(machine.segments().Malloc(0, GiB(10), Segments::Kind::kDevice, &segment), Error::kOutOfMemory);
  EXPECT_EQ(machine.unified_host().overloads(), 1);
  EXPECT_NE(told.find("10.00 GiB more are asked for"), std::string::npos) << told;

  void* pinned = nullptr;
  EXPECT_EQ(machine.AllocateHost(GiB(5), &pinned), Error::kOutOfMemory);
  EXPECT_EQ(machine.unified_host().overloads(), 2);
  ASSERT_EQ(machine.AllocateHost(GiB(1), &pinned), Error::kSuccess);
  EXPECT_EQ(machine.host_memory().Free(pinned), Error::kSuccess);
}

// Makes no claim about an order: it gives a thread sanitizer something to see.
TEST(MachineTest, ThreadsThatUseItAtOnceLeaveNothingBehind) {
  Machine machine(Configuration{.memory = GiB(1)});
  machine.clock().Set(Nanoseconds(0));
  const auto use = [&machine] {
    VirtualMemory& memory = machine.virtual_memory();
    Streams& streams = machine.streams();
    Stream* stream = streams.Create(0, Stream::Kind::kBlocking, 0);
    for (int round = 0; round < 50; ++round) {
      Address range;
      VirtualMemory::HandleId handle = 0;
      ASSERT_EQ(memory.Reserve(kPageSize, kPageSize, Address(), &range), Error::kSuccess);
      ASSERT_EQ(memory.Create(0, kPageSize, &handle), Error::kSuccess);
      ASSERT_EQ(memory.Map(range, kPageSize, handle), Error::kSuccess);
      ASSERT_EQ(memory.SetAccess(range, kPageSize, {{0, VirtualMemory::Access::kReadWrite}}), Error::kSuccess);
      Address segment;
      ASSERT_EQ(machine.segments().Malloc(0, kPageSize, Segments::Kind::kDevice, &segment), Error::kSuccess);
      auto* word = static_cast<int*>(range.pointer());
      const Work work{WorkKind::kFill, microseconds(1), [word, round] { *word = round; }};
      ASSERT_EQ(streams.Launch(*stream, work), Error::kSuccess);
      Event* event = streams.events().Create();
      ASSERT_EQ(streams.events().Record(event, *stream), Error::kSuccess);
      ASSERT_EQ(streams.events().StreamWait(*streams.Find(Streams::kLegacyHandle, 0), event), Error::kSuccess);
      ASSERT_EQ(streams.events().Synchronize(event), Error::kSuccess);
      ASSERT_EQ(streams.events().Destroy(event), Error::kSuccess);
      ASSERT_EQ(*word, round);
      ASSERT_EQ(memory.Unmap(range, kPageSize), Error::kSuccess);
      ASSERT_EQ(memory.Release(handle), Error::kSuccess);
      ASSERT_EQ(memory.Unreserve(range, kPageSize), Error::kSuccess);
      ASSERT_EQ(machine.FreeSegment(segment), Error::kSuccess);
    }
    ASSERT_EQ(streams.Destroy(stream), Error::kSuccess);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(use);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(machine.gpu(0).memory().used(), Bytes(0));
  EXPECT_EQ(machine.calls().count(CallKind::kCreate), 200u);
  EXPECT_EQ(machine.calls().count(CallKind::kFree), 200u);
}

TEST(MachineTest, HostGetsFreedDeviceMemoryBack) {
  Machine machine(Configuration{.memory = GiB(1)});
  const auto blocks_of_file = [&machine] { return machine.gpu(0).memory().file()->AllocatedBytes(); };
  Address segment;
  ASSERT_EQ(machine.segments().Malloc(0, MiB(8), Segments::Kind::kDevice, &segment), Error::kSuccess);
  EXPECT_EQ(blocks_of_file(), Bytes(0));
  auto* bytes = static_cast<char*>(segment.pointer());
  for (int64_t i = 0; i < MiB(8).count(); i += 4096) bytes[i] = 1;
  EXPECT_EQ(blocks_of_file(), MiB(8));
  ASSERT_EQ(machine.FreeSegment(segment), Error::kSuccess);
  EXPECT_EQ(blocks_of_file(), Bytes(0));
}

}  // namespace
}  // namespace frugal::sim
