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

#include "gtest/gtest.h"

namespace frugal::sim::nccl {
namespace {

using Track = Exchange::Track;

std::unique_ptr<Exchange> Join(const std::string& name, int rank, int size, uint64_t gpu = 0) {
  std::string problem;
  std::unique_ptr<Exchange> exchange = Exchange::Join(name, rank, size, gpu, &problem);
  EXPECT_NE(exchange, nullptr) << problem;
  return exchange;
}

std::vector<std::unique_ptr<Exchange>> JoinAll(int size) {
  const std::string name = Exchange::NewName();
  std::vector<std::unique_ptr<Exchange>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(Join(name, rank, size));
  return ranks;
}

int64_t WriteText(Exchange& exchange, int reader, const std::string& text) {
  return exchange.Write(reader, text.data(), text.size());
}

std::string ReadText(Exchange& exchange, int writer, Track track, size_t most) {
  std::string text(most, '?');
  const int64_t got = exchange.Read(writer, track, text.data(), text.size());
  text.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return text;
}

TEST(NcclExchangeTest, NamesDiffer) { EXPECT_NE(Exchange::NewName(), Exchange::NewName()); }

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

TEST(NcclExchangeTest, AllReadWhatOneWrites) {
  const auto ranks = JoinAll(3);
  EXPECT_EQ(WriteText(*ranks[0], Exchange::kEverybody, "hello"), 5);
  EXPECT_EQ(ReadText(*ranks[1], 0, Track::kOfAll, 3), "hel");
  EXPECT_EQ(ReadText(*ranks[1], 0, Track::kOfAll, 9), "lo");
  EXPECT_EQ(ReadText(*ranks[2], 0, Track::kOfAll, 9), "hello");
  EXPECT_EQ(ReadText(*ranks[2], 0, Track::kOfAll, 9), "");
}

TEST(NcclExchangeTest, PairsDoNotMixWithAllOrEachOther) {
  const auto ranks = JoinAll(3);
  WriteText(*ranks[0], 1, "for 1");
  WriteText(*ranks[0], 2, "for 2");
  WriteText(*ranks[0], Exchange::kEverybody, "for all");
  WriteText(*ranks[2], 1, "of 2");
  WriteText(*ranks[1], 1, "own");
  EXPECT_EQ(ReadText(*ranks[1], 0, Track::kOfPair, 9), "for 1");
  EXPECT_EQ(ReadText(*ranks[2], 0, Track::kOfPair, 9), "for 2");
  EXPECT_EQ(ReadText(*ranks[1], 2, Track::kOfPair, 9), "of 2");
  EXPECT_EQ(ReadText(*ranks[1], 1, Track::kOfPair, 9), "own");
  EXPECT_EQ(ReadText(*ranks[1], 0, Track::kOfAll, 9), "for all");
}

TEST(NcclExchangeTest, WriterIsAheadByOneRingAtMost) {
  const auto ranks = JoinAll(3);
  const std::vector<char> data(Exchange::kRing + 1, 'x');
  EXPECT_EQ(ranks[0]->Write(Exchange::kEverybody, data.data(), data.size()), Exchange::kRing);
  EXPECT_EQ(WriteText(*ranks[0], Exchange::kEverybody, "more"), 0);
  ranks[1]->Skip(0, Track::kOfAll, Exchange::kRing);
  EXPECT_EQ(WriteText(*ranks[0], Exchange::kEverybody, "more"), 0) << "rank 2 has not read";
  ranks[2]->Skip(0, Track::kOfAll, Exchange::kRing);
  EXPECT_EQ(WriteText(*ranks[0], Exchange::kEverybody, "more"), 4);
  EXPECT_EQ(ReadText(*ranks[1], 0, Track::kOfAll, 9), "more");
}

TEST(NcclExchangeTest, StreamGoesRoundTheRing) {
  const auto ranks = JoinAll(2);
  std::vector<char> data(Exchange::kRing / 4 * 3);
  std::vector<char> got(data.size());
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + static_cast<size_t>(round));
    ASSERT_EQ(ranks[0]->Write(1, data.data(), data.size()), static_cast<int64_t>(data.size()));
    ASSERT_EQ(ranks[1]->Read(0, Track::kOfPair, got.data(), got.size()), static_cast<int64_t>(got.size()));
    ASSERT_EQ(got, data) << "round " << round;
  }
}

TEST(NcclExchangeTest, ReaderMayPassOverWhatIsNotWrittenYet) {
  const auto ranks = JoinAll(2);
  ranks[1]->Skip(0, Track::kOfAll, 3);
  WriteText(*ranks[0], Exchange::kEverybody, "abcdef");
  EXPECT_EQ(ReadText(*ranks[1], 0, Track::kOfAll, 9), "def");
}

TEST(NcclExchangeTest, MemoryThatDoesNotExistIsRefused) {
  const auto ranks = JoinAll(2);
  EXPECT_EQ(ranks[0]->Write(1, nullptr, 8), -1);
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

TEST(NcclExchangeTest, RankThatLeavesIsGoneAndWhatItWroteIsNot) {
  auto ranks = JoinAll(2);
  WriteText(*ranks[0], 1, "bye");
  EXPECT_FALSE(ranks[1]->IsGone(0));
  ranks[0].reset();
  EXPECT_TRUE(ranks[1]->IsGone(0));
  EXPECT_EQ(ReadText(*ranks[1], 0, Track::kOfPair, 9), "bye");
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

TEST(NcclExchangeTest, EveryStepIsAnEvent) {
  const auto ranks = JoinAll(2);
  const uint32_t before = ranks[1]->events();
  WriteText(*ranks[0], 1, "x");
  EXPECT_NE(ranks[1]->events(), before);
  ranks[1]->Wait(before, std::chrono::minutes(10));  // It has happened, so this does not wait.
  const uint32_t written = ranks[0]->events();
  ReadText(*ranks[1], 0, Track::kOfPair, 1);
  EXPECT_NE(ranks[0]->events(), written);
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
