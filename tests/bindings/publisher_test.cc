#include "bindings/publishing/publisher.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <stdexcept>
#include <string>

#include "gtest/gtest.h"
#include "tests/bindings/asking.h"
#include "tests/bindings/child.h"

namespace frugal {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

std::string AskThis() { return Ask(Publisher::NameOfThisProcess()); }

std::string Hello() { return "hello"; }

TEST(PublisherTest, AProcessAnswersOnceThereIsSomethingToTell) {
  Publisher publisher(Hello);
  EXPECT_EQ(AskThis(), "nobody");
  publisher.Begin();
  EXPECT_EQ(AskThis(), "hello\n");
  EXPECT_EQ(AskThis(), "hello\n");
}

TEST(PublisherTest, TheNameGoesWithThePublisher) {
  {
    Publisher publisher(Hello);
    publisher.Begin();
  }
  EXPECT_EQ(AskThis(), "nobody");
}

TEST(PublisherTest, TheSettingTurnsItOffAndOn) {
  Publisher publisher(Hello);
  publisher.Set(false);
  publisher.Begin();
  EXPECT_EQ(AskThis(), "nobody");
  publisher.Set(true);
  EXPECT_EQ(AskThis(), "hello\n");
  publisher.Set(false);
  EXPECT_EQ(AskThis(), "nobody");
  publisher.Set(true);
  EXPECT_EQ(AskThis(), "hello\n");
}

TEST(PublisherTest, ItIsKnownWhetherSomebodyLooked) {
  Publisher publisher(Hello);
  publisher.Begin();
  EXPECT_FALSE(publisher.TakeLook());
  AskThis();
  EXPECT_TRUE(publisher.TakeLook());
  EXPECT_FALSE(publisher.TakeLook());
}

TEST(PublisherTest, AReaderThatHangsHoldsUpNobody) {
  Publisher publisher([] { return std::string(Publisher::kMostBytes - 1, 'x'); });
  publisher.Begin();
  const Descriptor hangs(Connect(Publisher::NameOfThisProcess()));
  EXPECT_EQ(AskThis().size(), Publisher::kMostBytes);
  EXPECT_TRUE(publisher.StopWithin(absl::InfiniteDuration()));
}

TEST(PublisherTest, AReaderThatWentAwayIsNoSignal) {
  Publisher publisher(Hello);
  publisher.Begin();
  close(Connect(Publisher::NameOfThisProcess()));
  EXPECT_EQ(AskThis(), "hello\n");
}

TEST(PublisherTest, WhatIsTooLongOrFailsIsNotAnswered) {
  Publisher large([] { return std::string(Publisher::kMostBytes, 'x'); });
  large.Begin();
  EXPECT_EQ(AskThis(), "");
  large.Set(false);
  Publisher failing([]() -> std::string { throw std::runtime_error("no"); });
  failing.Begin();
  EXPECT_EQ(AskThis(), "");
  EXPECT_EQ(AskThis(), "");
}

TEST(PublisherTest, ATakenNameMeansThatNothingIsPublished) {
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(Publisher::NameOfThisProcess(), size);
  const Descriptor taken(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(taken.number(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  Publisher publisher(Hello);
  publisher.Begin();
  EXPECT_EQ(AskThis(), "nobody");
}

TEST(PublisherTest, AProcessWithoutDescriptorsPublishesNothing) {
  EXPECT_TRUE(HoldsInChild([] {
    while (dup(0) >= 0) continue;
    Publisher publisher(Hello);
    publisher.Begin();
    for (int number = 3; number < 10; ++number) close(number);
    EXPECT_EQ(AskThis(), "nobody");
  }));
}

TEST(PublisherTest, AProgramThatClosesAllItsFilesLosesNoOthersByIt) {
  Publisher publisher(Hello);
  publisher.Begin();
  ASSERT_EQ(AskThis(), "hello\n");
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(Publisher::NameOfThisProcess() + "/test", size);
  const Descriptor others(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(others.number(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(others.number(), 1), 0);
  // Each descriptor that is a socket of the publisher's name now is the program's.
  int mine = -1;
  for (int number = 3; number < 100; ++number) {
    sockaddr_un found = {};
    socklen_t found_size = sizeof(found);
    if (getsockname(number, reinterpret_cast<sockaddr*>(&found), &found_size) != 0) continue;
    if (found_size <= sizeof(found.sun_family) || number == others.number()) continue;
    if (std::string(found.sun_path + 1, found_size - offsetof(sockaddr_un, sun_path) - 1) ==
        Publisher::NameOfThisProcess()) {
      mine = number;
    }
  }
  ASSERT_GE(mine, 0);
  ASSERT_EQ(dup2(others.number(), mine), mine);
  // The thread is in its call still: it answers this one, and then finds that the socket is another.
  EXPECT_EQ(AskThis(), "hello\n");
  EXPECT_TRUE(publisher.StopWithin(absl::InfiniteDuration()));
  const Descriptor connection(Connect(Publisher::NameOfThisProcess() + "/test"));
  EXPECT_GE(connection.number(), 0);
  close(mine);
}

TEST(PublisherTest, ForeignUsersAreNotAnswered) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  // The publisher is nobody's: root may ask it, and another user may not.
  std::array<int, 2> told;
  std::array<int, 2> ends;
  ASSERT_EQ(pipe2(told.data(), O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kMostSeconds);
    close(ends[1]);
    if (setresuid(1234, 1234, 1234) != 0) _exit(1);
    Publisher publisher(Hello);
    publisher.Begin();
    const std::string name = Publisher::NameOfThisProcess() + "\n";
    if (write(told[1], name.data(), name.size()) < 0) _exit(1);
    char byte = 0;
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(ends[0]);
  close(told[1]);
  std::string name = ReadLine(told[0]);
  if (name.empty()) {
    close(ends[1]);
    waitpid(child, nullptr, 0);
    GTEST_SKIP() << "this namespace has one user only";
  }
  name.pop_back();
  EXPECT_EQ(Ask(name), "hello\n");
  EXPECT_TRUE(HoldsInChild([&name] {
    ASSERT_EQ(setresuid(4321, 4321, 4321), 0);
    EXPECT_EQ(Ask(name), "");
  }));
  close(ends[1]);
  waitpid(child, nullptr, 0);
}

// What the kernel says of a thread of this process: its name, and the signals that it blocks.
struct Task {
  std::string name;
  uint64_t blocked = 0;
};

Task TaskOf(const std::filesystem::path& folder) {
  Task task;
  std::ifstream status(folder / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Name:", 0) == 0) task.name = line.substr(line.find_first_not_of(" \t", 5));
    if (line.rfind("SigBlk:", 0) == 0) task.blocked = std::stoull(line.substr(7), nullptr, 16);
  }
  return task;
}

TEST(PublisherTest, SignalsGoToTheProgramsThreads) {
  constexpr uint64_t kInterrupt = uint64_t{1} << (SIGINT - 1);
  Publisher publisher(Hello);
  publisher.Begin();
  ASSERT_EQ(AskThis(), "hello\n");
  int publishers = 0;
  for (const auto& folder : std::filesystem::directory_iterator("/proc/self/task")) {
    const Task task = TaskOf(folder);
    const bool is_publisher = task.name == "frugal_publish";
    publishers += is_publisher ? 1 : 0;
    const bool is_this = folder.path().filename() == std::to_string(getpid());
    if (is_publisher || is_this) {
      EXPECT_EQ((task.blocked & kInterrupt) != 0, is_publisher);
    }
  }
  EXPECT_EQ(publishers, 1);
}

// The publisher of a process, and what becomes of it in children and at the end. Never destroyed.
Publisher& GuardedPublisher() {
  static Publisher* const publisher = [] {
    auto* made = new Publisher(Hello);
    made->GuardProcess();
    made->Begin();
    return made;
  }();
  return *publisher;
}

class GuardedPublisherTest : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer follows no threads of a child by fork";
#endif
  }
};

TEST_F(GuardedPublisherTest, AChildHasANameOfItsOwnOnceItBegins) {
  GuardedPublisher();
  const std::string parents = Publisher::NameOfThisProcess();
  EXPECT_TRUE(HoldsInChild([&parents] {
    EXPECT_NE(Publisher::NameOfThisProcess(), parents);
    EXPECT_EQ(AskThis(), "nobody");
    GuardedPublisher().Begin();
    EXPECT_EQ(AskThis(), "hello\n");
    EXPECT_EQ(Ask(parents), "hello\n");
  }));
  EXPECT_EQ(AskThis(), "hello\n");
}

TEST_F(GuardedPublisherTest, AChildDoesNotKeepItsParentsName) {
  std::array<int, 2> told;
  std::array<int, 2> ends;
  ASSERT_EQ(pipe(told.data()), 0);
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kMostSeconds);
    close(ends[1]);
    GuardedPublisher().Begin();
    const std::string name = Publisher::NameOfThisProcess() + "\n";
    if (fork() == 0) {
      // By now it has closed what it inherited.
      if (write(told[1], name.data(), name.size()) < 0) _exit(1);
      char byte = 0;
      _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    _exit(0);
  }
  close(ends[0]);
  close(told[1]);
  waitpid(child, nullptr, 0);
  std::string name = ReadLine(told[0]);
  name.pop_back();
  EXPECT_EQ(Ask(name), "nobody");
  close(ends[1]);
}

TEST_F(GuardedPublisherTest, AProcessThatIsBeingReadEnds) {
  EXPECT_TRUE(HoldsInChild(
      [] {
        GuardedPublisher().Begin();
        Connect(Publisher::NameOfThisProcess());
        AskThis();
      },
      &std::exit));
}

TEST_F(GuardedPublisherTest, AnAnswerThatHangsIsLeftToItself) {
  const auto hang = [] {
    static std::latch asked{1};
    static Publisher* const publisher = new Publisher([]() -> std::string {
      asked.count_down();
      while (true) pause();
    });
    publisher->Begin();
    Connect(Publisher::NameOfThisProcess());
    asked.wait();
    EXPECT_FALSE(publisher->StopWithin(absl::Milliseconds(1)));
  };
  EXPECT_TRUE(HoldsInChild(hang, &std::exit));
}

}  // namespace
}  // namespace frugal
