#include "cuda/simulated/libraries/nccl_exchange.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cuda/simulated/libraries/nccl_host.h"
#include "gtest/gtest.h"

namespace frugal::sim::nccl {
namespace {

using Label = Exchange::Label;
using Step = Exchange::Step;
using Track = Exchange::Track;

std::unique_ptr<Exchange> Join(const std::string& name, int rank, int size, uint64_t gpu = 0) {
  std::string problem;
  std::unique_ptr<Exchange> exchange = Exchange::Join(name, rank, size, gpu, &problem);
  EXPECT_NE(exchange, nullptr) << problem;
  return exchange;
}

std::vector<std::unique_ptr<Exchange>> JoinAll(int size) {
  const std::string name = NewName();
  std::vector<std::unique_ptr<Exchange>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(Join(name, rank, size));
  return ranks;
}

Step PostText(Exchange& exchange, int reader, const std::string& text) {
  return exchange.Post(reader, {1, text.size()}, text.data(), text.size());
}

TEST(NcclExchangeTest, FileHasNoNameOnceAllHaveJoined) {
  const std::string name = NewName();
  const std::unique_ptr<Exchange> first = Join(name, 0, 2);
  EXPECT_FALSE(first->HasEverybody());
  EXPECT_TRUE(std::filesystem::exists(Exchange::FileOf(name)));
  const std::unique_ptr<Exchange> second = Join(name, 1, 2);
  EXPECT_TRUE(first->HasEverybody());
  EXPECT_FALSE(std::filesystem::exists(Exchange::FileOf(name)));
}

TEST(NcclExchangeTest, RankIsThereOnce) {
  const std::string name = NewName();
  const std::unique_ptr<Exchange> first = Join(name, 0, 2);
  std::string problem;
  EXPECT_EQ(Exchange::Join(name, 0, 2, 0, &problem), nullptr);
  EXPECT_NE(problem.find("rank 0 is there already"), std::string::npos);
  const std::unique_ptr<Exchange> second = Join(name, 1, 2);
  EXPECT_TRUE(first->HasEverybody());
}

TEST(NcclExchangeTest, MemoryThatDoesNotExistIsRefused) {
  const auto ranks = JoinAll(2);
  Label label{1, 8};
  EXPECT_EQ(ranks[0]->Post(1, label, nullptr, 8), Step::kRefusedBySystem);
  ASSERT_EQ(PostText(*ranks[0], 1, "12345678"), Step::kMade);
  EXPECT_EQ(ranks[1]->Take(0, Track::kOfPair, &label, nullptr, 8), Step::kRefusedBySystem);
}

TEST(NcclExchangeTest, RanksWithOneGpuFindEachOther) {
  const std::string name = NewName();
  const std::unique_ptr<Exchange> first = Join(name, 0, 3, 5);
  const std::unique_ptr<Exchange> second = Join(name, 1, 3, 6);
  EXPECT_EQ(first->RankWithSameGpu(), -1);
  const std::unique_ptr<Exchange> third = Join(name, 2, 3, 5);
  EXPECT_EQ(first->RankWithSameGpu(), 2);
  EXPECT_EQ(second->RankWithSameGpu(), -1);
}

TEST(NcclExchangeTest, ProcessThatEndsWithoutAWordIsGone) {
  const std::string name = NewName();
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
  const std::string name = NewName();
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
  const std::string alive = NewName();
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
