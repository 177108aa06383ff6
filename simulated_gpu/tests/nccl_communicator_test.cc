// Communication of ranks that are threads, or one thread, without a GPU: memory is the host's.

#include "simulated_gpu/libraries/nccl_communicator.h"

#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "simulated_gpu/libraries/nccl_call.h"

namespace frugal::sim::nccl {
namespace {

using Kind = Call::Kind;
using Numbers = std::vector<int32_t>;

class NcclCommunicatorTest : public testing::Test {
 protected:
  explicit NcclCommunicatorTest(int size = 3) {
    const std::string name = Exchange::NewName();
    for (int rank = 0; rank < size; ++rank) ranks_.push_back(Communicator::Join({name, rank, size, 0}, nullptr));
    for (const auto& rank : ranks_) EXPECT_EQ(rank->WaitForEverybody(), kSuccess);
  }
  ~NcclCommunicatorTest() override {
    for (const auto& rank : ranks_) rank->End();
  }

  Call Make(Kind kind, int rank, const Numbers& send, Numbers* receive, size_t count, int peer = 0) const {
    Call call;
    call.kind = kind;
    call.send = send.data();
    call.receive = receive == nullptr ? nullptr : receive->data();
    call.count = count;
    call.type = kInt32;
    call.reduction = {kSum, kInt32, 1};
    call.peer = peer;
    call.communicator = ranks_[rank];
    return call;
  }

  // Every rank's.
  std::vector<Call> MakeAll(Kind kind, const std::vector<Numbers>& send, std::vector<Numbers>* receive, size_t count,
                            int peer = 0) const {
    std::vector<Call> calls;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      calls.push_back(Make(kind, rank, send[rank], &(*receive)[rank], count, peer));
    }
    return calls;
  }
  // By one thread.
  Result MoveAll(Kind kind, const std::vector<Numbers>& send, std::vector<Numbers>* receive, size_t count,
                 int peer = 0) const {
    return MoveData(MakeAll(kind, send, receive, count, peer));
  }

  std::vector<std::shared_ptr<Communicator>> ranks_;
};

const std::vector<Numbers> kSix = {{0, 1, 2, 3, 4, 5}, {10, 11, 12, 13, 14, 15}, {20, 21, 22, 23, 24, 25}};

TEST_F(NcclCommunicatorTest, InPlaceIsAsGood) {
  std::vector<Numbers> all = kSix;
  ASSERT_EQ(MoveAll(Kind::kAllReduce, all, &all, 6), kSuccess);
  EXPECT_EQ(all, std::vector<Numbers>(3, {30, 33, 36, 39, 42, 45}));
  all = {{1, 1, 0, 0, 0, 0}, {0, 0, 2, 2, 0, 0}, {0, 0, 0, 0, 3, 3}};
  std::vector<Call> calls = MakeAll(Kind::kAllGather, all, &all, 2);
  for (int rank = 0; rank < 3; ++rank) calls[rank].send = all[rank].data() + 2 * rank;
  ASSERT_EQ(MoveData(calls), kSuccess);
  EXPECT_EQ(all, std::vector<Numbers>(3, {1, 1, 2, 2, 3, 3}));
}

TEST_F(NcclCommunicatorTest, MoreThanATrackHoldsGoesThrough) {
  constexpr size_t kCount = Exchange::kSlots * Exchange::kSlot / sizeof(int32_t) + 100'003;
  std::vector<Numbers> all(3, Numbers(kCount));
  for (int rank = 0; rank < 3; ++rank) std::iota(all[rank].begin(), all[rank].end(), rank);
  ASSERT_EQ(MoveAll(Kind::kAllReduce, all, &all, kCount), kSuccess);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(all[0][i], static_cast<int32_t>(3 * i + 3));
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

TEST_F(NcclCommunicatorTest, PartsOfSeveralMessagesGoThrough) {
  constexpr size_t kCount = 2 * Exchange::kPiece / sizeof(int32_t) + 7;
  std::vector<Numbers> all(3, Numbers(3 * kCount));
  for (int rank = 0; rank < 3; ++rank) std::iota(all[rank].begin(), all[rank].end(), 1000 * rank);
  std::vector<Numbers> swapped(3, Numbers(3 * kCount));
  ASSERT_EQ(MoveAll(Kind::kAllToAll, all, &swapped, kCount), kSuccess);
  std::vector<Numbers> scattered(3, Numbers(kCount));
  ASSERT_EQ(MoveAll(Kind::kScatter, all, &scattered, kCount, /*peer=*/2), kSuccess);
  std::vector<Call> calls = MakeAll(Kind::kReduceScatter, all, &all, kCount);  // In place.
  for (int rank = 0; rank < 3; ++rank) calls[rank].receive = all[rank].data() + static_cast<size_t>(rank) * kCount;
  ASSERT_EQ(MoveData(calls), kSuccess);
  for (size_t i = 0; i < 3 * kCount; ++i) {
    const size_t part = i / kCount;
    ASSERT_EQ(all[part][i], static_cast<int32_t>(3 * i + 3000));
    for (size_t rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(swapped[rank][i], static_cast<int32_t>(1000 * part + rank * kCount + i % kCount));
    }
    ASSERT_EQ(scattered[part][i % kCount], static_cast<int32_t>(2000 + i));
  }
}

TEST_F(NcclCommunicatorTest, RanksThatSendMoreThanATrackHoldsToEachOtherInAGroup) {
  constexpr size_t kCount = Exchange::kSlots * Exchange::kSlot / sizeof(int32_t) + 11;
  std::vector<Numbers> received(2, Numbers(kCount));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const Numbers own(kCount, rank + 5);
      const std::vector<Call> calls = {Make(Kind::kSend, rank, own, nullptr, kCount, 1 - rank),
                                       Make(Kind::kReceive, rank, {}, &received[rank], kCount, 1 - rank)};
      EXPECT_EQ(MoveData(calls), kSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(received, (std::vector<Numbers>{Numbers(kCount, 6), Numbers(kCount, 5)}));
}

TEST_F(NcclCommunicatorTest, OrderOfPairsAndCollectivesInAGroupDoesNotMatter) {
  std::vector<Numbers> sums(3, Numbers(6));
  Numbers received(6);
  std::vector<std::vector<Call>> groups(3);
  for (int rank = 0; rank < 3; ++rank) groups[rank] = {Make(Kind::kAllReduce, rank, kSix[rank], &sums[rank], 6)};
  groups[0].push_back(Make(Kind::kSend, 0, kSix[0], nullptr, 6, /*peer=*/1));
  groups[1].insert(groups[1].begin(), Make(Kind::kReceive, 1, {}, &received, 6, /*peer=*/0));
  std::vector<std::thread> threads;
  for (const std::vector<Call>& group : groups) {
    threads.emplace_back([&group] { EXPECT_EQ(MoveData(group), kSuccess); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sums, std::vector<Numbers>(3, {30, 33, 36, 39, 42, 45}));
  EXPECT_EQ(received, kSix[0]);
}

TEST_F(NcclCommunicatorTest, RootsThatDifferAreRefused) {
  std::vector<Numbers> all = kSix;
  const std::vector<Call> calls = {Make(Kind::kBroadcast, 0, all[0], &all[0], 6, /*peer=*/1),
                                   Make(Kind::kBroadcast, 1, all[1], &all[1], 6, /*peer=*/0)};
  EXPECT_EQ(MoveData(calls), kInvalidUsage);
}

TEST_F(NcclCommunicatorTest, FactorOfEachRankComesBeforeTheSum) {
  const int op = ranks_[0]->AddOperator(2);
  EXPECT_FALSE(ranks_[1]->ReductionOf(op, kInt32).has_value()) << "it is rank 0's";
  std::vector<Numbers> result(3, Numbers(6));
  std::vector<Call> calls = MakeAll(Kind::kAllReduce, kSix, &result, 6);
  calls[0].reduction = *ranks_[0]->ReductionOf(op, kInt32);
  ASSERT_EQ(MoveData(calls), kSuccess);
  EXPECT_EQ(result, std::vector<Numbers>(3, {30, 34, 38, 42, 46, 50}));
  ranks_[0]->RemoveOperator(op);
  EXPECT_FALSE(ranks_[0]->ReductionOf(op, kInt32).has_value());
}

TEST_F(NcclCommunicatorTest, SendNeedsNobodyToReceiveYet) {
  ASSERT_EQ(MoveData({Make(Kind::kSend, 0, kSix[0], nullptr, 6, /*peer=*/1)}), kSuccess);
  ASSERT_EQ(MoveData({Make(Kind::kSend, 0, kSix[1], nullptr, 2, /*peer=*/1)}), kSuccess);
  Numbers first(6);
  Numbers second(2);
  ASSERT_EQ(MoveData({Make(Kind::kReceive, 1, {}, &first, 6, /*peer=*/0)}), kSuccess);
  ASSERT_EQ(MoveData({Make(Kind::kReceive, 1, {}, &second, 2, /*peer=*/0)}), kSuccess);
  EXPECT_EQ(first, kSix[0]);
  EXPECT_EQ(second, (Numbers{10, 11}));
}

TEST_F(NcclCommunicatorTest, GroupSendsBeforeItWaits) {
  Numbers received(6);
  const std::vector<Call> calls = {Make(Kind::kReceive, 2, {}, &received, 6, /*peer=*/0),
                                   Make(Kind::kSend, 0, kSix[0], nullptr, 6, /*peer=*/2)};
  ASSERT_EQ(MoveData(calls), kSuccess);
  EXPECT_EQ(received, kSix[0]);
}

TEST_F(NcclCommunicatorTest, RootOfABroadcastGoesOn) {
  std::vector<Numbers> all = kSix;
  ASSERT_EQ(MoveData({Make(Kind::kBroadcast, 0, all[0], &all[0], 6)}), kSuccess);
  for (int rank = 1; rank < 3; ++rank) {
    ASSERT_EQ(MoveData({Make(Kind::kBroadcast, rank, all[rank], &all[rank], 6)}), kSuccess);
  }
  EXPECT_EQ(all, std::vector<Numbers>(3, kSix[0]));
}

TEST_F(NcclCommunicatorTest, DifferentCallsAreRefusedAndNamed) {
  std::vector<Numbers> all = kSix;
  const std::vector<Call> calls = {Make(Kind::kAllReduce, 0, all[0], &all[0], 6),
                                   Make(Kind::kAllReduce, 1, all[1], &all[1], 5),
                                   Make(Kind::kAllReduce, 2, all[2], &all[2], 6)};
  EXPECT_EQ(MoveData(calls), kInvalidUsage);
  EXPECT_NE(std::string(LastError()).find("called another collective, or with other sizes"), std::string::npos);
  EXPECT_EQ(ranks_[0]->state(), kInvalidUsage);
}

TEST_F(NcclCommunicatorTest, RankThatHasLeftIsAnErrorOfWhoWaitsForIt) {
  std::shared_ptr<Communicator> last = std::move(ranks_[2]);
  ranks_.pop_back();
  Numbers received(6);
  EXPECT_EQ(MoveData({Make(Kind::kSend, 0, kSix[0], nullptr, 6, /*peer=*/1)}), kSuccess);
  last->End();
  last.reset();
  EXPECT_EQ(MoveData({Make(Kind::kReceive, 1, {}, &received, 6, /*peer=*/0)}), kSuccess) << "it is not needed";
  EXPECT_EQ(MoveData({Make(Kind::kReceive, 1, {}, &received, 6, /*peer=*/2)}), kRemoteError);
  EXPECT_NE(std::string(LastError()).find("rank 2 of 3 has ended"), std::string::npos);
}

TEST_F(NcclCommunicatorTest, RankThatHasItsPartMayLeaveBeforeOthersHaveTheirs) {
  constexpr size_t kCount = Exchange::kSlots / 2 * Exchange::kPiece / sizeof(int32_t);
  const Numbers parts(3 * kCount, 4);
  Numbers own(kCount);
  std::vector<Numbers> others(2, Numbers(kCount));
  std::thread root([&] { EXPECT_EQ(MoveData({Make(Kind::kScatter, 0, parts, &own, kCount)}), kSuccess); });
  EXPECT_EQ(MoveData({Make(Kind::kScatter, 1, {}, others.data(), kCount)}), kSuccess);
  ranks_[1]->End();
  ranks_[1].reset();
  std::this_thread::sleep_for(3 * Waiting::kBetweenLooks);
  EXPECT_EQ(MoveData({Make(Kind::kScatter, 2, {}, &others[1], kCount)}), kSuccess);
  root.join();
  EXPECT_EQ(others, std::vector<Numbers>(2, Numbers(kCount, 4)));
  ranks_.erase(ranks_.begin() + 1);
}

TEST_F(NcclCommunicatorTest, AbortEndsAWait) {
  Numbers received(6);
  Result result = kSuccess;
  std::thread waiting([&] { result = MoveData({Make(Kind::kReceive, 1, {}, &received, 6, /*peer=*/0)}); });
  ranks_[1]->End();
  waiting.join();
  EXPECT_EQ(result, kInternalError);
  EXPECT_EQ(Communicator::Of(ranks_[1].get()), nullptr);
}

TEST_F(NcclCommunicatorTest, LargeDataIsNotSmall) {
  Call call = Make(Kind::kAllReduce, 0, kSix[0], nullptr, Call::kMostMoved / sizeof(int32_t));
  EXPECT_TRUE(call.IsSmall(3));
  ++call.count;
  EXPECT_FALSE(call.IsSmall(3));
  call = Make(Kind::kReduceScatter, 0, kSix[0], nullptr, Call::kMostMoved / sizeof(int32_t));
  EXPECT_FALSE(call.IsSmall(3)) << "each rank gives three times that";
}

}  // namespace
}  // namespace frugal::sim::nccl
