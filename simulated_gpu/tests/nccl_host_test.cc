#include "simulated_gpu/libraries/nccl_host.h"

#include <sys/prctl.h>

#include <filesystem>

#include "gtest/gtest.h"

namespace frugal::sim::nccl {
namespace {

TEST(NcclHostTest, AnotherOneWithItsNumberIsAnother) {
  Process process = Process::This();
  ++process.began;
  EXPECT_FALSE(process.IsAlive());
}

TEST(NcclHostTest, NameDoesNotMatter) {
  const Process before = Process::This();
  prctl(PR_SET_NAME, "a) b (c d");
  EXPECT_EQ(Process::This().began, before.began);
  EXPECT_TRUE(before.IsAlive());
}

TEST(NcclHostTest, NameOfThePackageSaysIt) {
  const std::filesystem::path folder = testing::TempDir() + "/packages";
  std::filesystem::create_directories(folder / "nvidia_nccl_cu13");
  EXPECT_EQ(VersionOfPackage(folder), 0);
  std::filesystem::create_directories(folder / "nvidia_nccl_cu12-2.27.5.dist-info");
  EXPECT_EQ(VersionOfPackage(folder), 22705);
}

}  // namespace
}  // namespace frugal::sim::nccl
