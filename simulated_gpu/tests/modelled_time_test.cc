// Time that calls and work take, with work that is done at once; and memory that goes beyond what there is.

#include <chrono>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/launch_queue.h"
#include "simulated_gpu/machine/machine.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

Configuration Modelled() { return {.modelled_time = true}; }

class ModelledTimeTest : public ::testing::Test {
 protected:
  Nanoseconds now() { return machine_.clock().Now(); }
  Work Kernel() { return {WorkKind::kKernel, machine_.configuration().DurationOf(Bytes(0)), nullptr}; }

  Machine machine_{Modelled()};
  Streams& streams_ = machine_.streams();
  Stream& stream_ = *streams_.Create(0, Stream::Kind::kNonBlocking, 0);
};

TEST_F(ModelledTimeTest, OnlyCallsAndWaitsPassTime) {
  EXPECT_EQ(now(), Nanoseconds(0));
  Work work = Kernel();
  bool is_done = false;
  work.run = [&is_done] { is_done = true; };
  ASSERT_EQ(streams_.Launch(stream_, work), Error::kSuccess);
  EXPECT_TRUE(is_done) << "work is done at once";
  EXPECT_EQ(now(), Calls::kOperator);
  ASSERT_EQ(streams_.Synchronize(stream_), Error::kSuccess);
  EXPECT_EQ(now(), Calls::kOperator + microseconds(5));
}

TEST_F(ModelledTimeTest, WorkTakesItsTimeByTheBytesThatItTouches) {
  const Configuration& configuration = machine_.configuration();
  EXPECT_EQ(configuration.DurationOf(Bytes(2'000'000)), microseconds(5) + microseconds(1));
  EXPECT_EQ(configuration.DurationOf(Bytes(25'000), /*of_host=*/true), microseconds(5) + microseconds(1));
}

TEST_F(ModelledTimeTest, WhoeverAsksAnEventOftenEnoughComesToAnEnd) {
  Event* from = streams_.events().Create();
  Event* event = streams_.events().Create();
  ASSERT_EQ(streams_.events().Record(from, stream_), Error::kSuccess);
  ASSERT_EQ(streams_.Launch(stream_, Kernel()), Error::kSuccess);
  ASSERT_EQ(streams_.events().Record(event, stream_), Error::kSuccess);
  EXPECT_EQ(streams_.events().Query(event), Error::kNotReady);
  int queries = 1;
  while (streams_.events().Query(event) == Error::kNotReady && queries < 100) ++queries;
  EXPECT_LT(queries, 10);
  ASSERT_EQ(streams_.Launch(stream_, Kernel()), Error::kSuccess);
  ASSERT_EQ(streams_.events().Record(event, stream_), Error::kSuccess);
  Nanoseconds elapsed{0};
  for (queries = 0; streams_.events().Elapsed(from, event, &elapsed) == Error::kNotReady && queries < 100;) ++queries;
  EXPECT_LT(queries, 10);
}

TEST_F(ModelledTimeTest, HostRunsAheadOnlySoFar) {
  const auto launches = static_cast<int>(2 * LaunchQueue::kLongest);
  Work work = Kernel();
  work.duration = microseconds(20);
  for (int i = 0; i < launches; ++i) ASSERT_EQ(streams_.Launch(stream_, work), Error::kSuccess);
  const Nanoseconds done = Calls::kOperator + launches * microseconds(20);
  EXPECT_EQ(done - now(), static_cast<int>(LaunchQueue::kLongest) * microseconds(20));
}

TEST(LaunchQueueTest, TheHostWaitsForTheFirstOfManyToEnd) {
  LaunchQueue queue;
  for (int i = 1; i <= static_cast<int>(LaunchQueue::kLongest); ++i) {
    EXPECT_EQ(queue.Add(Nanoseconds(10 * i), Nanoseconds(0)), Nanoseconds(0));
  }
  EXPECT_EQ(queue.Add(Nanoseconds(99'999), Nanoseconds(0)), Nanoseconds(10));
  EXPECT_EQ(queue.Add(Nanoseconds(99'999), Nanoseconds(500)), Nanoseconds(500)) << "many have ended meanwhile";
}

Configuration Small(bool beyond) { return {.memory = MiB(64), .context = MiB(16), .beyond = beyond}; }

TEST(BeyondTest, RequestsForMoreThanThereIsSucceed) {
  Machine machine(Small(true));
  PhysicalMemory& memory = machine.gpu(0).memory();
  Address first;
  Address second;
  ASSERT_EQ(machine.segments().Malloc(0, MiB(40), Segments::Kind::kDevice, &first), Error::kSuccess);
  EXPECT_EQ(memory.free(), MiB(8));
  ASSERT_EQ(machine.segments().Malloc(0, MiB(40), Segments::Kind::kDevice, &second), Error::kSuccess);
  Bytes free;
  Bytes total;
  ASSERT_EQ(machine.GetMemoryInfo(0, &free, &total), Error::kSuccess);
  EXPECT_EQ(free, Bytes(0));
  EXPECT_EQ(total, MiB(64));
  EXPECT_EQ(memory.peak(), MiB(80));
  ASSERT_EQ(machine.FreeSegment(second), Error::kSuccess);
  EXPECT_EQ(memory.free(), MiB(8));
}

TEST(BeyondTest, OtherProcessesOfANodeGetBackWhatWasTakenFromIt) {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/node";
  const ComputeNode::Setup setup{.gpus = 1, .memory = MiB(64), .mapped_handles = 100};
  std::string problem;
  Machine machine(Small(true), {0}, ComputeNode::Open(path, setup, &problem));
  const auto other = ComputeNode::Open(path, setup, &problem);
  ASSERT_NE(other, nullptr) << problem;
  Address first;
  Address second;
  ASSERT_EQ(machine.segments().Malloc(0, MiB(40), Segments::Kind::kDevice, &first), Error::kSuccess);
  ASSERT_EQ(machine.segments().Malloc(0, MiB(40), Segments::Kind::kDevice, &second), Error::kSuccess);
  EXPECT_EQ(other->FreeMemory(0), MiB(8));
  ASSERT_EQ(machine.FreeSegment(first), Error::kSuccess);
  ASSERT_EQ(machine.FreeSegment(second), Error::kSuccess);
  EXPECT_EQ(other->FreeMemory(0), MiB(48));
}

}  // namespace
}  // namespace frugal::sim
