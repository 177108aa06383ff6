#include "cuda/simulated/driver_memory.h"

#include <optional>

#include "cuda/simulated/machine.h"
#include "gtest/gtest.h"

namespace frugal::sim {
namespace {

class DriverMemoryTest : public ::testing::Test {
 protected:
  static Configuration Full(bool on = true) {
    Configuration configuration;
    configuration.memory = MiB(64);
    configuration.context = MiB(0);
    configuration.driver_memory.on = on;
    configuration.driver_memory.module = MiB(4);
    return configuration;
  }
  // Leaves `left` of the GPU.
  static void Fill(Machine& machine, Bytes left) {
    Address start;
    const Bytes size = machine.gpu(0).memory().free() - left;
    ASSERT_EQ(machine.segments().Malloc(0, size, Segments::Kind::kDevice, &start), Error::kSuccess);
  }
  Bytes taken() { return machine_.gpu(0).memory().taken_for_driver(); }

  Machine machine_{Full()};
  DriverMemory& memory_ = machine_.driver_memory();
  const int module_ = 0;
  const int other_module_ = 0;
};

TEST_F(DriverMemoryTest, ModuleTakesItsMemoryAtTheFirstLaunchAlone) {
  EXPECT_EQ(memory_.Load(0, &module_), Error::kSuccess);
  EXPECT_EQ(memory_.Load(0, &module_), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(4));
  EXPECT_EQ(memory_.Load(0, &other_module_), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(8));
  EXPECT_EQ(machine_.gpu(0).memory().used(), Bytes(0)) << "it is not the program's";
  EXPECT_EQ(machine_.gpu(0).memory().free(), MiB(56));
  memory_.Unload(&module_);
  EXPECT_EQ(machine_.gpu(0).memory().free(), MiB(60));
}

TEST_F(DriverMemoryTest, FirstLaunchOnAFullGpuIsOutOfMemoryAndLaterOnesAreNot) {
  ASSERT_EQ(memory_.Load(0, &module_), Error::kSuccess);
  Fill(machine_, MiB(2));
  EXPECT_EQ(memory_.Load(0, &other_module_), Error::kOutOfMemory);
  EXPECT_EQ(taken(), MiB(4));
  EXPECT_EQ(memory_.Load(0, &module_), Error::kSuccess);
}

TEST_F(DriverMemoryTest, TablesAreTakenForFreshAddressesAlone) {
  const Address start(uint64_t{1} << 40);
  ASSERT_EQ(memory_.MakePageTables(0, start, MiB(2)), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(2)) << "a piece serves 512 tables";
  ASSERT_EQ(memory_.MakePageTables(0, start, GiB(256)), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(2));
  ASSERT_EQ(memory_.MakePageTables(0, start, GiB(256) + MiB(2)), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(4));
}

TEST_F(DriverMemoryTest, SetAccessAtFreshAddressesOfAFullGpuIsOutOfMemoryAndChangesNothing) {
  VirtualMemory& memory = machine_.virtual_memory();
  Address range;
  VirtualMemory::HandleId handle = 0;
  ASSERT_EQ(memory.Reserve(kPageSize, kPageSize, Address(), &range), Error::kSuccess);
  ASSERT_EQ(memory.Create(0, kPageSize, &handle), Error::kSuccess);
  ASSERT_EQ(memory.Map(range, kPageSize, handle), Error::kSuccess);
  Fill(machine_, Bytes(0));
  const VirtualMemory::GpuAccess access{0, VirtualMemory::Access::kReadWrite};
  EXPECT_EQ(memory.SetAccess(range, kPageSize, {access}), Error::kOutOfMemory);
  EXPECT_EQ(machine_.AccessOf(0, range), VirtualMemory::Access::kNone);
  ASSERT_EQ(memory.Unmap(range, kPageSize), Error::kSuccess);
  ASSERT_EQ(memory.Release(handle), Error::kSuccess);
}

TEST_F(DriverMemoryTest, LocalMemoryGrowsToTheLargestKernelsAndStays) {
  ASSERT_EQ(memory_.MakeLocalMemory(0, MiB(10)), Error::kSuccess);
  ASSERT_EQ(memory_.MakeLocalMemory(0, MiB(6)), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(10));
  Fill(machine_, MiB(2));
  EXPECT_EQ(memory_.MakeLocalMemory(0, MiB(14)), Error::kOutOfMemory);
  EXPECT_EQ(memory_.MakeLocalMemory(0, MiB(12)), Error::kSuccess);
}

TEST_F(DriverMemoryTest, APieceServesThirtyTwoStreams) {
  for (int stream = 0; stream < 33; ++stream) ASSERT_EQ(memory_.MakeStream(0), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(4));
}

TEST_F(DriverMemoryTest, NothingIsTakenUnlessItIsAskedFor) {
  Machine machine(Full(/*on=*/false));
  Fill(machine, Bytes(0));
  EXPECT_EQ(machine.driver_memory().Load(0, &module_), Error::kSuccess);
  EXPECT_EQ(machine.driver_memory().MakePageTables(0, Address(1 << 30), GiB(1)), Error::kSuccess);
  EXPECT_EQ(machine.driver_memory().MakeLocalMemory(0, GiB(1)), Error::kSuccess);
  EXPECT_EQ(machine.driver_memory().MakeStream(0), Error::kSuccess);
  EXPECT_EQ(machine.gpu(0).memory().taken_for_driver(), Bytes(0));
}

}  // namespace
}  // namespace frugal::sim
