#include "simulated_gpu/machine/driver_memory.h"

#include "gtest/gtest.h"
#include "simulated_gpu/tests/simulated_machine.h"

namespace frugal::sim {
namespace {

Configuration Full(bool on = true) {
  return {.memory = MiB(64), .context = MiB(0), .driver_memory = {.on = on, .module = MiB(4)}};
}

class DriverMemoryTest : public SimulatedMachine {
 protected:
  DriverMemoryTest() : SimulatedMachine(Full()) {}

  // Leaves `left` of the GPU.
  void Fill(Bytes left) { Malloc(physical().free() - left); }
  Bytes taken() { return physical().taken_for_driver(); }

  DriverMemory& driver_ = machine_.driver_memory();
  const int module_ = 0;
  const int other_module_ = 0;
};

TEST_F(DriverMemoryTest, ModuleTakesItsMemoryAtTheFirstLaunchAlone) {
  EXPECT_EQ(driver_.Load(0, &module_), Error::kSuccess);
  EXPECT_EQ(driver_.Load(0, &module_), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(4));
  EXPECT_EQ(driver_.Load(0, &other_module_), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(8));
  EXPECT_EQ(used(), Bytes(0)) << "it is not the program's";
  EXPECT_EQ(physical().free(), MiB(56));
  driver_.Unload(&module_);
  EXPECT_EQ(physical().free(), MiB(60));
}

TEST_F(DriverMemoryTest, FirstLaunchOnAFullGpuIsOutOfMemoryAndLaterOnesAreNot) {
  ASSERT_EQ(driver_.Load(0, &module_), Error::kSuccess);
  Fill(MiB(2));
  EXPECT_EQ(driver_.Load(0, &other_module_), Error::kOutOfMemory);
  EXPECT_EQ(taken(), MiB(4));
  EXPECT_EQ(driver_.Load(0, &module_), Error::kSuccess);
}

TEST_F(DriverMemoryTest, TablesAreTakenForFreshAddressesAlone) {
  const Address start(uint64_t{1} << 40);
  ASSERT_EQ(driver_.MakePageTables(0, start, MiB(2)), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(2)) << "a piece serves 512 tables";
  ASSERT_EQ(driver_.MakePageTables(0, start, GiB(256)), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(2));
  ASSERT_EQ(driver_.MakePageTables(0, start, GiB(256) + MiB(2)), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(4));
}

TEST_F(DriverMemoryTest, SetAccessAtFreshAddressesOfAFullGpuIsOutOfMemoryAndChangesNothing) {
  const Address range = Reserve(kPage);
  const HandleId handle = Create();
  ASSERT_EQ(memory_.Map(range, kPage, handle), Error::kSuccess);
  Fill(Bytes(0));
  EXPECT_EQ(memory_.SetAccess(range, kPage, {{0, Access::kReadWrite}}), Error::kOutOfMemory);
  EXPECT_EQ(machine_.AccessOf(0, range), Access::kNone);
  ASSERT_EQ(memory_.Unmap(range, kPage), Error::kSuccess);
  ASSERT_EQ(memory_.Release(handle), Error::kSuccess);
}

TEST_F(DriverMemoryTest, LocalMemoryGrowsToTheLargestKernelsAndStays) {
  ASSERT_EQ(driver_.MakeLocalMemory(0, MiB(10)), Error::kSuccess);
  ASSERT_EQ(driver_.MakeLocalMemory(0, MiB(6)), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(10));
  Fill(MiB(2));
  EXPECT_EQ(driver_.MakeLocalMemory(0, MiB(14)), Error::kOutOfMemory);
  EXPECT_EQ(driver_.MakeLocalMemory(0, MiB(12)), Error::kSuccess);
}

TEST_F(DriverMemoryTest, APieceServesThirtyTwoStreams) {
  for (int stream = 0; stream < 33; ++stream) ASSERT_EQ(driver_.MakeStream(0), Error::kSuccess);
  EXPECT_EQ(taken(), MiB(4));
}

class NoDriverMemoryTest : public SimulatedMachine {
 protected:
  NoDriverMemoryTest() : SimulatedMachine(Full(/*on=*/false)) {}
};

TEST_F(NoDriverMemoryTest, NothingIsTakenUnlessItIsAskedFor) {
  Malloc(physical().free());
  DriverMemory& driver = machine_.driver_memory();
  const int module = 0;
  EXPECT_EQ(driver.Load(0, &module), Error::kSuccess);
  EXPECT_EQ(driver.MakePageTables(0, Address(1 << 30), GiB(1)), Error::kSuccess);
  EXPECT_EQ(driver.MakeLocalMemory(0, GiB(1)), Error::kSuccess);
  EXPECT_EQ(driver.MakeStream(0), Error::kSuccess);
  EXPECT_EQ(physical().taken_for_driver(), Bytes(0));
}

}  // namespace
}  // namespace frugal::sim
