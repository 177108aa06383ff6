#include "cuda/simulated/libraries/nccl_version.h"

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace frugal::sim::nccl {
namespace {

TEST(NcclVersionTest, NameOfThePackageSaysIt) {
  const std::filesystem::path folder = testing::TempDir() + "/packages";
  std::filesystem::create_directories(folder / "nvidia_nccl_cu13");
  EXPECT_EQ(VersionOfPackage(folder), 0);
  std::filesystem::create_directories(folder / "nvidia_nccl_cu12-2.27.5.dist-info");
  EXPECT_EQ(VersionOfPackage(folder), 22705);
}

TEST(NcclVersionTest, WithoutPyTorchItIsARecentOne) {
  EXPECT_EQ(VersionOfPackage("/nowhere"), 0);
  EXPECT_GE(Version(), VersionCode(2, 28, 0));
}

}  // namespace
}  // namespace frugal::sim::nccl
