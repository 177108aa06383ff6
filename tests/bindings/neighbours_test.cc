// Processes that ask each other for memory, each end for itself: the other end is the test, and time is its own.

#include "bindings/publishing/neighbours.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/publishing/abstract_socket.h"
#include "bindings/publishing/grants.h"
#include "bindings/publishing/publisher.h"
#include "gtest/gtest.h"
#include "tests/bindings/asking.h"
#include "tests/bindings/child.h"

namespace frugal {
namespace {

constexpr char kGpu[] = "GPU-1";
constexpr int64_t kWanted = 1000;

// A clock that stands still but when somebody waits in vain, and then goes on by as much as he was ready to wait.
class TestTime {
 public:
  Outside outside() {
    return {.now = [this] { return now_; },
            .poll =
                [this](absl::Span<pollfd> sockets, absl::Duration longest) {
                  meanwhile();
                  for (pollfd& socket : sockets) socket.revents = 0;
                  if (::poll(sockets.data(), sockets.size(), 0) <= 0) now_ += longest;
                },
            .user_of = [this](int) { return user; }};
  }
  absl::Duration now() const { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

  std::optional<uid_t> user = geteuid();  // at the other end
  // What others do while somebody waits.
  std::function<void()> meanwhile = [] {};

 private:
  absl::Duration now_ = absl::Hours(1);
};

// The socket at which a process of some name is asked; nobody takes a connection unless the test does.
class Peer {
 public:
  explicit Peer(int number)
      : name_(std::string(Publisher::kFamily) + Neighbours::kRoom + std::to_string(getpid()) + "/" +
              std::to_string(number)),
        listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    socklen_t size = 0;
    const sockaddr_un address = AddressOf(name_, size);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 100), 0);
  }
  ~Peer() {
    HangUp();
    close(listener_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& name() const { return name_; }
  // The next request; "": there is none.
  std::string Accept() {
    HangUp();
    connection_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return connection_ < 0 ? "" : ReadLine(connection_);
  }
  void Say(const std::string& text) const { send(connection_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL); }
  void HangUp() {
    if (connection_ >= 0) close(std::exchange(connection_, -1));
  }

 private:
  const std::string name_;
  const int listener_;
  int connection_ = -1;
};

class NeighboursTest : public testing::Test {
 protected:
  NeighboursTest() { neighbours_.Set(true); }

  bool Ask() {
    return neighbours_.Ask(kGpu, kWanted, [this] { return free_; });
  }
  absl::Duration TimeOf(const std::function<void()>& body) {
    const absl::Duration began = time_.now();
    body();
    return time_.now() - began;
  }

  TestTime time_;
  std::vector<std::string> names_;
  int64_t free_ = 10;  // of the GPU
  Neighbours neighbours_{time_.outside(), [this](const Outside&, absl::Duration) { return names_; }};
};

TEST_F(NeighboursTest, AGrantIsThereAsSoonAsTheGpuHasIt) {
  Peer peer(1);
  names_ = {peer.name()};
  time_.meanwhile = [&] {
    EXPECT_EQ(peer.Accept(), "1000 GPU-1\n");
    free_ = kWanted;
    peer.HangUp();
  };
  EXPECT_EQ(TimeOf([&] { EXPECT_TRUE(Ask()); }), absl::ZeroDuration());
}

TEST_F(NeighboursTest, OneThatHangsCostsTheDeadlineAndThenNothingForTenTimesAsLong) {
  Peer peer(1);
  names_ = {peer.name()};
  EXPECT_EQ(TimeOf([&] { EXPECT_TRUE(Ask()); }), Neighbours::kPatience);
  EXPECT_NE(peer.Accept(), "");
  EXPECT_EQ(TimeOf([&] { EXPECT_FALSE(Ask()); }), absl::ZeroDuration());
  time_.Advance(10 * Neighbours::kPatience - absl::Milliseconds(1));
  EXPECT_FALSE(Ask());
  EXPECT_EQ(peer.Accept(), "") << "it was not asked";
  time_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Ask());
}

TEST_F(NeighboursTest, ManyThatHangCostNoMoreThanOne) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 20; ++i) {
    peers.push_back(std::make_unique<Peer>(i));
    names_.push_back(peers.back()->name());
  }
  EXPECT_EQ(TimeOf([&] { Ask(); }), Neighbours::kPatience);
}

TEST_F(NeighboursTest, WhatALiarSaysIsNotBelieved) {
  for (const std::string& answer : {std::string("1000\n"), std::string("99999999999999999999\n"), std::string("-5\n"),
                                    std::string("\0\xff{[", 4), std::string(), std::string(size_t{4} << 20, 'x')}) {
    Peer peer(1);
    names_ = {peer.name()};
    time_.meanwhile = [&] {
      peer.Accept();
      peer.Say(answer);
    };
    if (answer.empty()) time_.meanwhile = [&] { peer.Accept(), peer.HangUp(); };
    EXPECT_EQ(TimeOf([&] { EXPECT_TRUE(Ask()); }), absl::ZeroDuration()) << answer.size();
    EXPECT_EQ(free_, 10);
    time_.Advance(absl::Seconds(10));
  }
}

TEST_F(NeighboursTest, AnHonestOneIsWaitedForBesideALiar) {
  Peer liar(1);
  Peer honest(2);
  names_ = {liar.name(), honest.name()};
  int waits = 0;
  time_.meanwhile = [&] {
    if (++waits == 1) {
      liar.Accept();
      liar.Say("1000\n");
    } else {
      honest.Accept();
      free_ = kWanted;
      honest.Say("1000\n");
    }
  };
  EXPECT_EQ(TimeOf([&] { EXPECT_TRUE(Ask()); }), absl::ZeroDuration());
  EXPECT_EQ(waits, 2);
}

TEST_F(NeighboursTest, AnHonestOneIsEnoughBesideOneThatHangs) {
  Peer hangs(1);
  Peer honest(2);
  names_ = {hangs.name(), honest.name()};
  time_.meanwhile = [&] {
    honest.Accept();
    free_ = kWanted;
    honest.HangUp();
  };
  EXPECT_EQ(TimeOf([&] { EXPECT_TRUE(Ask()); }), absl::ZeroDuration());
}

TEST_F(NeighboursTest, AGrantThatHelpsMayBeFollowedByTheNextQuestion) {
  Peer peer(1);
  names_ = {peer.name()};
  for (int i = 0; i < 5; ++i) {
    free_ = 10;
    time_.meanwhile = [&] {
      EXPECT_NE(peer.Accept(), "");
      free_ = kWanted;
      peer.HangUp();
    };
    EXPECT_TRUE(Ask());
  }
}

TEST_F(NeighboursTest, NobodyIsAskedWhereItIsOffOrTheGpuHasNoNameOrEnoughIsFree) {
  Peer peer(1);
  names_ = {peer.name()};
  EXPECT_FALSE(neighbours_.Ask("", kWanted, [] { return 0; }));
  EXPECT_FALSE(neighbours_.Ask(kGpu, kWanted, [] { return kWanted; }));
  neighbours_.Set(false);
  EXPECT_FALSE(Ask());
  EXPECT_EQ(peer.Accept(), "");
}

TEST_F(NeighboursTest, NeitherThisProcessNorOneThatHasGoneIsAsked) {
  Publisher own(Neighbours::kRoom, [](int) -> std::string {
    ADD_FAILURE() << "it asked itself";
    return "";
  });
  own.Begin();
  names_ = {Publisher::NameOfThisProcess(Neighbours::kRoom), "frugal_alloc/give/1/1"};
  EXPECT_EQ(TimeOf([&] { EXPECT_FALSE(Ask()); }), absl::ZeroDuration());
}

// So two that run out at once wait for each other no longer than for anybody.
TEST_F(NeighboursTest, OneThatAsksGivesMeanwhileToTheOneThatItAsks) {
  std::latch given{1};
  Grants grants([&](absl::string_view, int64_t wanted) {
    given.count_down();
    return Grants::Given{wanted};
  });
  Publisher own(Neighbours::kRoom, [&](int connection) { return grants.Answer(connection); });
  own.Begin();
  Peer other(1);
  names_ = {other.name()};
  time_.meanwhile = [&] {
    EXPECT_NE(other.Accept(), "");
    EXPECT_TRUE(HoldsInChild([own_name = Publisher::NameOfThisProcess(Neighbours::kRoom)] {
      Neighbours others(Outside(), [&](const Outside&, absl::Duration) { return std::vector{own_name}; });
      others.Set(true);
      EXPECT_TRUE(others.Ask(kGpu, kWanted, [] { return 0; }));
    }));
    given.wait();
    free_ = kWanted;
    other.HangUp();
  };
  EXPECT_TRUE(Ask());
}

TEST_F(NeighboursTest, OnlySoManyAreAsked) {
  Peer peer(1);
  names_.assign(90, peer.name());
  EXPECT_TRUE(Ask());
  int asked = 0;
  while (!peer.Accept().empty()) ++asked;
  EXPECT_EQ(asked, 64);
}

TEST_F(NeighboursTest, AnotherUsersProcessIsToldNothing) {
  Peer peer(1);
  names_ = {peer.name()};
  for (const std::optional<uid_t> other : {std::optional<uid_t>(geteuid() + 1), std::optional<uid_t>()}) {
    time_.user = other;
    EXPECT_EQ(TimeOf([&] { EXPECT_FALSE(Ask()); }), absl::ZeroDuration());
    EXPECT_EQ(peer.Accept(), "");
  }
}

TEST_F(NeighboursTest, TheKernelSaysWhoListens) {
  Peer peer(1);
  const int connection = Connect(peer.name());
  EXPECT_EQ(UserAtOtherEnd(connection), geteuid());
  close(connection);
  EXPECT_EQ(UserAtOtherEnd(connection), std::nullopt);
}

TEST_F(NeighboursTest, TheKernelsListHasThoseWhoListenAtSuchNamesAndNoOthers) {
  Peer peer(1);
  const int connection = Connect(peer.name());
  peer.Accept();  // a second socket of the name
  const std::vector<std::string> names = Neighbours::ListFromKernel(Outside(), absl::InfiniteDuration());
  EXPECT_EQ(std::count(names.begin(), names.end(), peer.name()), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), Publisher::NameOfThisProcess()), 0);
  EXPECT_TRUE(Neighbours::ListFromKernel(Outside(), absl::ZeroDuration()).empty());
  close(connection);
}

TEST(RequestTest, IsReadAsItWasWritten) {
  const Request request = ReadRequest(WriteRequest("GPU-1 of /tmp/a node", 5));
  EXPECT_EQ(request.gpu, "GPU-1 of /tmp/a node");
  EXPECT_EQ(request.wanted, 5);
  EXPECT_EQ(WriteRequest("", 5), "");
  EXPECT_EQ(WriteRequest("two\nlines", 5), "");
  EXPECT_EQ(WriteRequest(std::string(600, 'x'), 5), "");
}

TEST(RequestTest, NonsenseIsNone) {
  for (const char* line : {"", "\n", "5\n", "5 \n", " GPU\n", "-5 GPU\n", "5x GPU\n", "99999999999999999999 GPU\n",
                           "5 GPU", "GET / HTTP/1.1\n"}) {
    EXPECT_EQ(ReadRequest(line).wanted, 0) << line;
  }
}

class GrantsTest : public testing::Test {
 protected:
  GrantsTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0); }
  ~GrantsTest() override {
    for (const int end : ends_) close(end);
  }

  void Say(const std::string& text) { send(ends_[0], text.data(), text.size(), MSG_NOSIGNAL); }
  std::string Answer() { return grants_.Answer(ends_[1]); }

  TestTime time_;
  int calls_ = 0;
  std::function<Grants::Given(int64_t wanted)> give_ = [](int64_t wanted) { return Grants::Given{wanted}; };
  Grants grants_{[this](absl::string_view gpu, int64_t wanted) {
                   ++calls_;
                   return gpu == kGpu ? give_(wanted) : Grants::Given{};
                 },
                 time_.outside()};
  int ends_[2];
};

TEST_F(GrantsTest, WhatIsAskedForIsGiven) {
  Say("1000 GPU-1\n");
  EXPECT_EQ(Answer(), "1000");
  Say("1000 GPU-2\n");
  EXPECT_EQ(Answer(), "0");
}

TEST_F(GrantsTest, WhoSaysNothingOrNonsenseGetsNothingAndHoldsNobodyUpForLong) {
  const absl::Duration began = time_.now();
  EXPECT_EQ(Answer(), "0");
  Say(std::string(100'000, 'x'));
  EXPECT_EQ(Answer(), "0");
  EXPECT_EQ(calls_, 0);
  EXPECT_LT(time_.now() - began, Neighbours::kPatience);
}

TEST_F(GrantsTest, MemoryThatAStreamIsYetToPassIsTriedForAgain) {
  give_ = [this](int64_t wanted) {
    return calls_ < 4 ? Grants::Given{calls_ == 2 ? 300 : 0, false} : Grants::Given{wanted};
  };
  Say("1000 GPU-1\n");
  EXPECT_EQ(Answer(), "1000");
  EXPECT_EQ(calls_, 4);
}

TEST_F(GrantsTest, AStreamThatNeverPassesIsGivenUp) {
  give_ = [](int64_t) { return Grants::Given{0, false}; };
  const absl::Duration began = time_.now();
  Say("1000 GPU-1\n");
  EXPECT_EQ(Answer(), "0");
  EXPECT_LE(time_.now() - began, Neighbours::kPatience);
  EXPECT_GT(calls_, 10);
}

TEST_F(GrantsTest, NothingIsTriedForOneWhoHasGone) {
  give_ = [this](int64_t) {
    shutdown(ends_[0], SHUT_RDWR);
    return Grants::Given{0, false};
  };
  Say("1000 GPU-1\n");
  EXPECT_EQ(Answer(), "0");
  EXPECT_EQ(calls_, 1);
}

TEST_F(GrantsTest, NothingIsGivenToOneWhoHadToWaitForItsTurnTooLong) {
  Say("1000 GPU-1\n");
  shutdown(ends_[0], SHUT_RDWR);
  EXPECT_EQ(Answer(), "0");
  EXPECT_EQ(calls_, 0);
}

TEST_F(GrantsTest, AFloodTakesATenthOfTheTime) {
  absl::Duration worked;
  give_ = [&](int64_t wanted) {
    time_.Advance(absl::Milliseconds(20));
    worked += absl::Milliseconds(20);
    return Grants::Given{wanted};
  };
  const absl::Duration began = time_.now();
  while (time_.now() - began < absl::Seconds(100)) {
    Say("1000 GPU-1\n");
    Answer();
  }
  EXPECT_NEAR(absl::ToDoubleSeconds(worked), 11, 0.5) << "a second at once, and then a tenth";
  EXPECT_LT(calls_, 1000);
}

TEST_F(GrantsTest, AnotherUserIsGivenNothing) {
  for (const std::optional<uid_t> other : {std::optional<uid_t>(geteuid() + 1), std::optional<uid_t>()}) {
    time_.user = other;
    Say("1000 GPU-1\n");
    EXPECT_EQ(Answer(), "0");
    EXPECT_EQ(calls_, 0);
  }
}

}  // namespace
}  // namespace frugal
