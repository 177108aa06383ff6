#include "bindings/publishing/publisher.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bindings/publishing/abstract_socket.h"
#include "bindings/threads/forked_child.h"

namespace frugal {
namespace {

std::array<Publisher*, 2> guarded = {};

// Before exit goes on without the thread, which a driver or a lock holds up.
constexpr absl::Duration kLongestExit = absl::Seconds(2);
// Until file descriptors are looked for again, of which the process has run out.
constexpr absl::Duration kDescriptorPatience = absl::Milliseconds(200);
constexpr int kBacklog = 16;
// Above those that programs close and open anew by their numbers.
constexpr int kFirstDescriptor = 3;

// Whether the descriptor is a socket of that name, and not another file: programs close what they do not know.
bool HasName(int descriptor, const SocketName& name) {
  SocketName found;
  found.size = sizeof(found.address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&found.address), &found.size) != 0) return false;
  return found == name;
}

// A socket that listens at the name; -1: there is none.
int Listen(const SocketName& name) {
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  const int listener = made >= kFirstDescriptor ? made : fcntl(made, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (listener != made) close(made);
  if (listener < 0) return -1;
  if (bind(listener, name.get(), name.size) == 0 && listen(listener, kBacklog) == 0) return listener;
  close(listener);
  return -1;
}

// Whether the one at the other end may know: this user, or root.
bool MayAsk(int connection) {
  const std::optional<uid_t> user = UserAtOtherEnd(connection);
  return user == 0 || user == geteuid();
}

// Signals are the program's threads' to take.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

bool IsShortOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// The next connection, however long that takes; -1: the socket is no more.
int Accept(int listener, const SocketName& name) {
  while (HasName(listener, name)) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) return connection;
    if (IsShortOfDescriptors(errno)) {
      absl::SleepFor(kDescriptorPatience);
    } else if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) {
      return -1;
    }
  }
  return -1;
}

}  // namespace

std::string Publisher::NameOfThisProcess(absl::string_view room) {
  struct stat facts;
  const uint64_t space = stat("/proc/self/ns/pid", &facts) == 0 ? static_cast<uint64_t>(facts.st_ino) : 0;
  return absl::StrCat(kFamily, room, space, "/", getpid());
}

void Publisher::Set(bool is_wanted) {
  {
    absl::MutexLock lock(&mutex_);
    wanted_ = is_wanted;
    StartIfWanted();
  }
  if (!is_wanted) static_cast<void>(EndSession(kLongestExit));
}

void Publisher::Begin() {
  absl::MutexLock lock(&mutex_);
  begun_ = true;
  StartIfWanted();
}

bool Publisher::StopWithin(absl::Duration longest) {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  return EndSession(longest);
}

void Publisher::StartIfWanted() {
  if (!begun_ || !wanted_ || stopped_ || session_ != nullptr) return;
  // Whatever fails here, the program goes on and nothing is published.
  auto session = std::make_unique<Session>();
  session->name = NameOfThisProcess(room_);
  session->listener = Listen(SocketName(session->name));
  if (session->listener < 0) return;
  try {
    const AllSignalsBlocked blocked;
    session->thread = std::thread([this, raw = session.get()] { Run(*raw); });
  } catch (const std::system_error&) {
    close(session->listener);
    return;
  }
  session_ = session.release();
  static std::atomic<bool> ends_at_exit{false};
  if (std::count(guarded.begin(), guarded.end(), this) > 0 && !ends_at_exit.exchange(true)) {
    // By now the driver has started: what is registered here comes before its own end.
    std::atexit([] {
      for (Publisher* one : guarded) {
        if (one != nullptr) static_cast<void>(one->StopWithin(kLongestExit));
      }
    });
  }
}

bool Publisher::EndSession(absl::Duration longest) {
  std::unique_ptr<Session> session;
  {
    absl::MutexLock lock(&mutex_);
    if (session_ == nullptr) return true;
    session.reset(std::exchange(session_, nullptr));
    // The thread that waits there wakes.
    if (!session->ended && HasName(session->listener, SocketName(session->name))) {
      shutdown(session->listener, SHUT_RDWR);
    }
    if (!mutex_.AwaitWithTimeout(absl::Condition(&session->ended), longest)) {
      session->thread.detach();
      static_cast<void>(session.release());  // the thread's from now on, for ever
      return false;
    }
  }
  session->thread.join();
  return true;
}

void Publisher::Run(Session& session) {
  // pthread_setname_np is newer than the oldest glibc that we run with.
  prctl(PR_SET_NAME, "frugal_publish");
  const SocketName name(session.name);
  while (true) {
    const int connection = Accept(session.listener, name);
    if (connection < 0) break;
    {
      absl::MutexLock lock(&mutex_);
      session.connection = connection;
    }
    Answer(connection);
    absl::MutexLock lock(&mutex_);
    session.connection = -1;
    close(connection);
  }
  absl::MutexLock lock(&mutex_);
  if (HasName(session.listener, name)) close(session.listener);
  session.listener = -1;
  session.ended = true;
}

void Publisher::Answer(int connection) {
  if (!MayAsk(connection)) return;
  try {
    std::string document = answer_(connection);
    if (document.size() >= kMostBytes) return;
    // By its end a reader knows that it has all, whoever else holds the connection: a child may have been forked.
    document += '\n';
    looked_.store(true, std::memory_order_relaxed);
    send(connection, document.data(), document.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } catch (const std::exception&) {
  }
}

void Publisher::GuardProcess() {
  const bool is_first = guarded[0] == nullptr;
  guarded[is_first ? 0 : 1] = this;
  if (is_first) WatchForks();
}

void Publisher::WatchForks() {
  const auto before = []() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (Publisher* one : guarded) {
      if (one != nullptr) one->mutex_.Lock();
    }
  };
  const auto in_parent = []() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (Publisher* one : guarded) {
      if (one != nullptr) one->mutex_.Unlock();
    }
  };
  const auto in_child = [] {
    for (Publisher* one : guarded) {
      if (one != nullptr) one->BecomeForkedChild();
    }
  };
  pthread_atfork(before, in_parent, in_child);
}

void Publisher::BecomeForkedChild() {
  // This very thread holds it, for all that debug builds know.
  mutex_.ForgetDeadlockInfo();
  Renew(mutex_);
  if (Session* const parents = std::exchange(session_, nullptr); parents != nullptr) {
    // Else the parent's name would stay taken for as long as the child lives.
    if (HasName(parents->listener, SocketName(parents->name))) close(parents->listener);
    if (parents->connection >= 0) close(parents->connection);
  }
  begun_ = false;
}

}  // namespace frugal
