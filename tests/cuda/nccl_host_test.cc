#include "cuda/simulated/libraries/nccl_host.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

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

TEST(NcclHostTest, OneThatNobodyHasWaitedForIsNotAlive) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  Process process{child, 0};
  EXPECT_FALSE(process.IsAlive());
  ASSERT_EQ(kill(child, SIGKILL), 0);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(process.IsAlive());
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
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
