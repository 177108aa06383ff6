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

// The next message, which has `size` bytes; nothing if it is not there.
std::string TakeText(Exchange& exchange, int writer, Track track, size_t size) {
  std::string text(size, '?');
  Label label{1, size};
  return exchange.Take(writer, track, &label, text.data(), size) == Step::kMade ? text : "";
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

TEST(NcclExchangeTest, AllTakeWhatOnePosts) {
  const auto ranks = JoinAll(3);
  EXPECT_EQ(PostText(*ranks[0], Exchange::kEverybody, "hel"), Step::kMade);
  EXPECT_EQ(PostText(*ranks[0], Exchange::kEverybody, "lo"), Step::kMade);
  for (int reader = 1; reader < 3; ++reader) {
    EXPECT_EQ(TakeText(*ranks[reader], 0, Track::kOfAll, 3), "hel");
    EXPECT_EQ(TakeText(*ranks[reader], 0, Track::kOfAll, 2), "lo");
    EXPECT_EQ(TakeText(*ranks[reader], 0, Track::kOfAll, 2), "");
  }
}

TEST(NcclExchangeTest, PairsDoNotMixWithAllOrEachOther) {
  const auto ranks = JoinAll(3);
  PostText(*ranks[0], 1, "for 1");
  PostText(*ranks[0], 2, "for 2");
  PostText(*ranks[0], Exchange::kEverybody, "for all");
  PostText(*ranks[2], 1, "of 2");
  PostText(*ranks[1], 1, "own");
  EXPECT_EQ(TakeText(*ranks[1], 0, Track::kOfPair, 5), "for 1");
  EXPECT_EQ(TakeText(*ranks[2], 0, Track::kOfPair, 5), "for 2");
  EXPECT_EQ(TakeText(*ranks[1], 2, Track::kOfPair, 4), "of 2");
  EXPECT_EQ(TakeText(*ranks[1], 1, Track::kOfPair, 3), "own");
  EXPECT_EQ(TakeText(*ranks[1], 0, Track::kOfAll, 7), "for all");
}

TEST(NcclExchangeTest, MessageWithAnotherLabelStaysAndIsNamed) {
  const auto ranks = JoinAll(2);
  ASSERT_EQ(ranks[0]->Post(1, {7, 40}, "four", 4), Step::kMade);
  std::string text = "????";
  Label label{7, 41};
  EXPECT_EQ(ranks[1]->Take(0, Track::kOfPair, &label, text.data(), 4), Step::kOtherLabel);
  EXPECT_EQ(text, "????");
  EXPECT_EQ(label, (Label{7, 40}));
  EXPECT_EQ(ranks[1]->Take(0, Track::kOfPair, &label, text.data(), 4), Step::kMade);
  EXPECT_EQ(text, "four");
}

TEST(NcclExchangeTest, WriterIsAheadByTheSlotsAtMost) {
  const auto ranks = JoinAll(3);
  for (uint64_t i = 0; i < Exchange::kSlots; ++i) {
    EXPECT_FALSE(ranks[0]->IsFull(1, Track::kOfAll));
    ASSERT_EQ(PostText(*ranks[0], Exchange::kEverybody, "x"), Step::kMade);
  }
  EXPECT_EQ(PostText(*ranks[0], Exchange::kEverybody, "more"), Step::kNotYet);
  ranks[1]->Skip(0, Track::kOfAll, Exchange::kSlots);
  EXPECT_FALSE(ranks[0]->IsFull(1, Track::kOfAll));
  EXPECT_TRUE(ranks[0]->IsFull(2, Track::kOfAll));
  EXPECT_EQ(PostText(*ranks[0], Exchange::kEverybody, "more"), Step::kNotYet) << "rank 2 has not taken one";
  ranks[2]->Skip(0, Track::kOfAll, 1);
  EXPECT_EQ(PostText(*ranks[0], Exchange::kEverybody, "more"), Step::kMade);
  EXPECT_EQ(TakeText(*ranks[1], 0, Track::kOfAll, 4), "more");
}

TEST(NcclExchangeTest, SlotsAreUsedAgain) {
  const auto ranks = JoinAll(2);
  std::vector<char> data(Exchange::kPiece);
  std::vector<char> got(data.size());
  Label label{1, data.size()};
  for (uint64_t message = 0; message < 2 * Exchange::kSlots + 3; ++message) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + message);
    ASSERT_EQ(ranks[0]->Post(1, label, data.data(), data.size()), Step::kMade);
    ASSERT_EQ(ranks[1]->Take(0, Track::kOfPair, &label, got.data(), got.size()), Step::kMade);
    ASSERT_EQ(got, data) << "message " << message;
  }
}

TEST(NcclExchangeTest, ReaderMayPassOverWhatIsNotPostedYet) {
  const auto ranks = JoinAll(2);
  ranks[1]->Skip(0, Track::kOfAll, 1);
  PostText(*ranks[0], Exchange::kEverybody, "abc");
  EXPECT_EQ(TakeText(*ranks[1], 0, Track::kOfAll, 3), "");
  PostText(*ranks[0], Exchange::kEverybody, "def");
  EXPECT_EQ(TakeText(*ranks[1], 0, Track::kOfAll, 3), "def");
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

TEST(NcclExchangeTest, RankThatLeavesIsGoneAndWhatItPostedIsNot) {
  auto ranks = JoinAll(2);
  PostText(*ranks[0], 1, "bye");
  EXPECT_FALSE(ranks[1]->IsGone(0));
  ranks[0].reset();
  EXPECT_TRUE(ranks[1]->IsGone(0));
  EXPECT_EQ(TakeText(*ranks[1], 0, Track::kOfPair, 3), "bye");
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

TEST(NcclExchangeTest, EveryStepIsAnEvent) {
  const auto ranks = JoinAll(2);
  const uint32_t before = ranks[1]->events();
  PostText(*ranks[0], 1, "x");
  EXPECT_NE(ranks[1]->events(), before);
  ranks[1]->Wait(before, std::chrono::minutes(10));  // It has happened, so this does not wait.
  const uint32_t posted = ranks[0]->events();
  TakeText(*ranks[1], 0, Track::kOfPair, 1);
  EXPECT_NE(ranks[0]->events(), posted);
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
