#include "simulated_gpu/libraries/nccl_exchange.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace frugal::sim::nccl {
namespace {

using Step = Exchange::Step;
using Track = Exchange::Track;

std::unique_ptr<Exchange> Join(const std::string& name, int rank, int size, uint64_t gpu = 0) {
  std::string problem;
  std::unique_ptr<Exchange> exchange = Exchange::Join(name, rank, size, gpu, &problem);
  EXPECT_NE(exchange, nullptr) << problem;
  return exchange;
}

TEST(NcclExchangeTest, FileHasNoNameOnceAllHaveJoined) {
  const std::string name = Exchange::NewName();
  const std::unique_ptr<Exchange> first = Join(name, 0, 2);
  EXPECT_FALSE(first->HasEverybody());
  EXPECT_TRUE(std::filesystem::exists(Exchange::FileOf(name)));
  const std::unique_ptr<Exchange> second = Join(name, 1, 2);
  EXPECT_TRUE(first->HasEverybody());
  EXPECT_FALSE(std::filesystem::exists(Exchange::FileOf(name)));
}

TEST(NcclExchangeTest, RankIsThereOnce) {
  const std::string name = Exchange::NewName();
  const std::unique_ptr<Exchange> first = Join(name, 0, 2);
  std::string problem;
  EXPECT_EQ(Exchange::Join(name, 0, 2, 0, &problem), nullptr);
  EXPECT_NE(problem.find("rank 0 is there already"), std::string::npos);
  const std::unique_ptr<Exchange> second = Join(name, 1, 2);
  EXPECT_TRUE(first->HasEverybody());
}

TEST(NcclExchangeTest, MemoryThatDoesNotExistIsRefused) {
  const std::string name = Exchange::NewName();
  const std::unique_ptr<Exchange> first = Join(name, 0, 2);
  const std::unique_ptr<Exchange> second = Join(name, 1, 2);
  Exchange::Label label{1, 8};
  EXPECT_EQ(first->Post(Track::kOfPair, 1, label, nullptr, 8), Step::kRefusedBySystem);
  ASSERT_EQ(first->Post(Track::kOfPair, 1, label, "12345678", 8), Step::kMade);
  EXPECT_EQ(second->Read(Track::kOfPair, 0, &label, nullptr, 8), Step::kRefusedBySystem);
}

TEST(NcclExchangeTest, RanksWithOneGpuFindEachOther) {
  const std::string name = Exchange::NewName();
  const std::unique_ptr<Exchange> first = Join(name, 0, 3, 5);
  const std::unique_ptr<Exchange> second = Join(name, 1, 3, 6);
  EXPECT_EQ(first->RankWithSameGpu(), -1);
  const std::unique_ptr<Exchange> third = Join(name, 2, 3, 5);
  EXPECT_EQ(first->RankWithSameGpu(), 2);
  EXPECT_EQ(second->RankWithSameGpu(), -1);
}

TEST(NcclExchangeTest, ProcessThatEndsWithoutAWordIsGone) {
  const std::string name = Exchange::NewName();
  const std::unique_ptr<Exchange> first = Join(name, 0, 2);
  const pid_t child = fork();
  if (child == 0) {
    std::string problem;
    const auto* second = Exchange::Join(name, 1, 2, 0, &problem).release();
    _exit(second == nullptr ? 1 : 0);
  }
  // Not waited for yet, it is a zombie, which is as good as gone.
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(first->HasEverybody());
  EXPECT_TRUE(first->IsGone(1));
  EXPECT_FALSE(first->IsGone(0));
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(first->IsGone(1));
}

TEST(NcclExchangeTest, FilesThatNobodyHasAnyMoreAreRemoved) {
  const std::string name = Exchange::NewName();
  const std::string path = Exchange::FileOf(name);
  const pid_t child = fork();
  if (child == 0) {
    std::string problem;
    (void)Exchange::Join(name, 0, 2, 0, &problem).release();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  Exchange::RemoveAbandoned();
  EXPECT_TRUE(std::filesystem::exists(path)) << "somebody may be about to join a new one";
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const std::string alive = Exchange::NewName();
  const std::unique_ptr<Exchange> waiting = Join(alive, 0, 2);
  std::filesystem::last_write_time(Exchange::FileOf(alive),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  Exchange::RemoveAbandoned();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::exists(Exchange::FileOf(alive)));
  const std::unique_ptr<Exchange> last = Join(alive, 1, 2);
}

}  // namespace
}  // namespace frugal::sim::nccl
