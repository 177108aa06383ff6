#include "simulated_gpu/machine/compute_node.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "simulated_gpu/machine/machine.h"

namespace frugal::sim {
namespace {

using std::chrono::microseconds;

constexpr ComputeNode::Setup kSetup = {.gpus = 2, .memory = MiB(64), .mapped_handles = 10};

class ComputeNodeTest : public ::testing::Test {
 protected:
  ComputeNodeTest() : path_(std::string(std::getenv("TEST_TMPDIR")) + "/node") { unlink(path_.c_str()); }

  std::unique_ptr<ComputeNode> Open(const ComputeNode::Setup& setup = kSetup) {
    problem_.clear();
    return ComputeNode::Open(path_, setup, &problem_);
  }
  // Runs `body` in a process of its own, which then dies without a word.
  template <typename Body>
  void InAnotherProcess(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }

  const std::string path_;
  std::string problem_;
};

TEST_F(ComputeNodeTest, ProcessesShareEachGpusMemory) {
  const auto first = Open();
  const auto second = Open();
  ASSERT_TRUE(first != nullptr && second != nullptr) << problem_;
  EXPECT_EQ(first->processes(), 2);
  ASSERT_TRUE(first->TakeMemory(0, MiB(60)));
  EXPECT_EQ(second->FreeMemory(0), MiB(4));
  EXPECT_EQ(second->FreeMemory(1), MiB(64));
  EXPECT_FALSE(second->TakeMemory(0, MiB(6)));
  EXPECT_EQ(second->FreeMemory(0), MiB(4)) << "what fails has changed nothing";
  first->GiveBackMemory(0, MiB(2));
  EXPECT_TRUE(second->TakeMemory(0, MiB(6)));
}

TEST_F(ComputeNodeTest, ProcessesShareTheTableOfMappedHandles) {
  const auto first = Open();
  const auto second = Open();
  ASSERT_TRUE(first->TakeMappedHandles(7));
  EXPECT_FALSE(second->TakeMappedHandles(4));
  EXPECT_TRUE(second->TakeMappedHandles(3));
  EXPECT_EQ(first->mapped_handles(), 10);
  first->GiveBackMappedHandles(7);
  EXPECT_TRUE(second->TakeMappedHandles(7));
}

TEST_F(ComputeNodeTest, WhatAProcessHeldIsFreeWhenItHasDied) {
  const auto survivor = Open();
  InAnotherProcess([&] {
    auto dying = Open();
    if (!dying->TakeMemory(0, MiB(64)) || !dying->TakeMappedHandles(10) || survivor->FreeMemory(0) != Bytes(0)) abort();
    (void)dying.release();  // A process that is killed tidies nothing up.
  });
  EXPECT_TRUE(survivor->TakeMemory(0, MiB(64)));
  EXPECT_TRUE(survivor->TakeMappedHandles(10));
  EXPECT_EQ(survivor->processes(), 1);
}

TEST_F(ComputeNodeTest, ForkedChildHoldsNothingOfItsParents) {
  auto parent = Open();
  ASSERT_TRUE(parent->TakeMemory(0, MiB(64)));
  InAnotherProcess([&] {
    parent->Leave();
    if (parent->TakeMemory(0, MiB(2)) || parent->TakeMappedHandles(1)) abort();
    parent.reset();
  });
  const auto other = Open();
  EXPECT_EQ(other->FreeMemory(0), Bytes(0)) << "the child has taken its parent's share away";
}

TEST_F(ComputeNodeTest, CallsOfOneProcessWaitForThoseOfAnother) {
  const auto first = Open();
  const auto second = Open();
  EXPECT_EQ(first->EnterDriver(microseconds(10), microseconds(5), /*manual_clock=*/true), microseconds(10));
  EXPECT_EQ(second->EnterDriver(microseconds(12), microseconds(5), true), microseconds(15));
  EXPECT_EQ(first->EnterDriver(microseconds(30), microseconds(5), true), microseconds(30));
  EXPECT_EQ(first->EnterDriver(microseconds(12), microseconds(5), false), microseconds(12)) << "another clock";
}

TEST_F(ComputeNodeTest, ProcessesOfOtherGpusAreRefusedUnlessTheNodeIsEmpty) {
  ComputeNode::Setup larger = kSetup;
  larger.memory = MiB(128);
  {
    const auto first = Open();
    EXPECT_EQ(Open(larger), nullptr);
    EXPECT_NE(problem_.find("set the same"), std::string::npos) << problem_;
  }
  const auto later = Open(larger);
  ASSERT_NE(later, nullptr) << problem_;
  EXPECT_EQ(later->FreeMemory(0), MiB(128));
}

TEST_F(ComputeNodeTest, FileIsItsUsersOwn) {
  const auto node = Open();
  struct stat status;
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(ComputeNodeTest, WhatIsNotANodesFileIsRefusedInOneLineAndLeftAlone) {
  const auto refused = [&](mode_t mode, const std::string& content) {
    std::ofstream(path_) << content;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(Open(), nullptr);
    EXPECT_TRUE(problem_.starts_with("FRUGAL_SIM_NODE='")) << problem_;
    EXPECT_EQ(problem_.find('\n'), std::string::npos);
    std::ifstream file(path_);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), content);
    unlink(path_.c_str());
  };
  Open().reset();
  struct stat status;
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  unlink(path_.c_str());
  refused(0600, "somebody's notes");
  refused(0600, std::string(static_cast<size_t>(status.st_size), 'x'));
  refused(0644, "");
}

TEST_F(ComputeNodeTest, WhatCannotBeANodesFileIsRefused) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_EQ(Open(), nullptr);
  rmdir(path_.c_str());
  ASSERT_EQ(symlink("/dev/zero", path_.c_str()), 0);
  EXPECT_EQ(Open(), nullptr) << "a link may be somebody else's";
  unlink(path_.c_str());
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(Open(), nullptr);
  unlink(path_.c_str());
}

// Two machines stand for two processes.
class SharedGpuTest : public ComputeNodeTest {
 protected:
  static Configuration OfNode() { return {.memory = kSetup.memory, .context = MiB(8), .gpus = kSetup.gpus}; }
  Error Malloc(Machine& machine, Bytes size, Address* start) {
    return machine.segments().Malloc(0, size, Segments::Kind::kDevice, start);
  }

  Machine first_{OfNode(), {0, 1}, Open()};
  Machine second_{OfNode(), {0, 1}, Open()};
};

TEST_F(SharedGpuTest, SecondIsOutOfMemoryWhatTheFirstHolds) {
  Address mine;
  ASSERT_EQ(Malloc(first_, MiB(40), &mine), Error::kSuccess);
  Bytes free;
  Bytes total;
  ASSERT_EQ(second_.GetMemoryInfo(0, &free, &total), Error::kSuccess);
  EXPECT_EQ(total, MiB(64));
  EXPECT_EQ(free, MiB(8)) << "64 without the first's 40, its context and the second's";
  Address its;
  EXPECT_EQ(Malloc(second_, MiB(10), &its), Error::kOutOfMemory);
  ASSERT_EQ(first_.FreeSegment(mine), Error::kSuccess);
  EXPECT_EQ(Malloc(second_, MiB(48), &its), Error::kSuccess);
  ASSERT_EQ(first_.GetMemoryInfo(0, &free, &total), Error::kSuccess);
  EXPECT_EQ(free, Bytes(0));
}

TEST_F(SharedGpuTest, SegmentOfOneTakesAMappedHandleOfBoth) {
  Address start;
  for (int i = 0; i < 9; ++i) ASSERT_EQ(Malloc(first_, MiB(2), &start), Error::kSuccess);
  ASSERT_EQ(Malloc(second_, MiB(2), &start), Error::kSuccess);
  EXPECT_EQ(Malloc(second_, MiB(2), &start), Error::kOutOfMemory);
  EXPECT_EQ(first_.mapped_handles().taken(), 10);
}

TEST_F(SharedGpuTest, CallOfOneWaitsForTheOtherWhereCallsTakeTime) {
  Configuration configuration = OfNode();
  configuration.driver_time = true;
  Machine first(configuration, {0, 1}, Open());
  Machine second(configuration, {0, 1}, Open());
  Address start;
  for (Machine* machine : {&first, &second}) {
    machine->clock().Set(Nanoseconds(0));
    ASSERT_EQ(Malloc(*machine, MiB(2), &start), Error::kSuccess);
  }
  EXPECT_EQ(first.clock().Now(), microseconds(104));
  EXPECT_EQ(second.clock().Now(), microseconds(2 * 104));
}

}  // namespace
}  // namespace frugal::sim
