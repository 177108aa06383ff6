#include "cuda/simulated/libraries/nccl_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "gtest/gtest.h"

namespace frugal::sim::nccl {
namespace {

TEST(NcclProcessTest, ThisOneIsAlive) {
  const Process process = Process::This();
  EXPECT_EQ(process.pid, getpid());
  EXPECT_GT(process.began, 0);
  EXPECT_TRUE(process.IsAlive());
}

TEST(NcclProcessTest, AnotherOneWithItsNumberIsAnother) {
  Process process = Process::This();
  ++process.began;
  EXPECT_FALSE(process.IsAlive());
}

TEST(NcclProcessTest, WhenItBeganStaysWhatItWas) {
  const Process before = Process::This();
  const std::vector<char> more(64 << 20, 'x');  // Of memory, which stands beside it in the kernel's file.
  EXPECT_EQ(Process::This().began, before.began) << more.size();
}

TEST(NcclProcessTest, NameDoesNotMatter) {
  const Process before = Process::This();
  prctl(PR_SET_NAME, "a) b (c d");
  EXPECT_EQ(Process::This().began, before.began);
  EXPECT_TRUE(before.IsAlive());
}

TEST(NcclProcessTest, OneThatNobodyHasWaitedForIsNotAlive) {
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

}  // namespace
}  // namespace frugal::sim::nccl
