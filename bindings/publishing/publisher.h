// Answers whoever asks this process about its memory while it runs: `frugal-alloc top`.

#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace frugal {

// A thread that waits at a Unix socket in the abstract namespace, and answers each connection with one line and the end
// of the stream. Nobody asks: it never runs. The socket goes with the process, and /proc/net/unix lists it.
//
// Asked by its own user or by root, and by nobody else. An answer is handed to the kernel in one piece, so a reader
// that hangs holds up nothing. Whatever stands in the way of publishing - no sockets, no threads, a name that is taken,
// a sandbox - means that nothing is published, and is no error.
//
// Thread-safety: any thread.
class Publisher {
 public:
  // The document: one line without its end, of at most kMostBytes. Called on the thread; may throw, which answers
  // nothing.
  using Describe = std::function<std::string()>;
  // A socket takes so much at once, however slow the reader is.
  static constexpr size_t kMostBytes = size_t{64} << 10;

  explicit Publisher(Describe describe)
      : Publisher("", [describe = std::move(describe)](int /*connection*/) { return describe(); }) {}
  // In a room of its own (NameOfThisProcess), with an answer to what the connection brings.
  Publisher(absl::string_view room, std::function<std::string(int connection)> answer)
      : room_(room), answer_(std::move(answer)) {}
  ~Publisher() { static_cast<void>(StopWithin(absl::InfiniteDuration())); }
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  // Whether it is to publish, which it is at first. Turning it off waits for an answer that is under way.
  void Set(bool is_wanted) ABSL_LOCKS_EXCLUDED(mutex_);
  // There is something to tell: from now on there is a thread unless it is not wanted.
  void Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the thread, for good. False: it is in an answer that takes longer, and is left to itself; the object must then
  // last for ever.
  bool StopWithin(absl::Duration longest) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether somebody has been answered since the last call.
  bool TakeLook() { return looked_.exchange(false, std::memory_order_relaxed); }

  // For the objects of a process that are never destroyed, two at most: their threads end before exit takes the driver
  // away, and a child by fork has neither threads nor sockets, and may begin anew. Before another thread uses one.
  void GuardProcess();

  // The name of a process's socket, without the zero that it begins with in the kernel: kFamily, the room, the number
  // of its pid namespace, "/" and its pid. Containers that share a network can have equal pids.
  static std::string NameOfThisProcess(absl::string_view room = "");
  static constexpr char kFamily[] = "frugal_alloc/";

 private:
  // One thread with its socket.
  struct Session {
    std::string name;
    int listener;
    int connection = -1;
    bool ended = false;
    std::thread thread;
  };

  void StartIfWanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EndSession(absl::Duration longest) ABSL_LOCKS_EXCLUDED(mutex_);
  void Run(Session& session);
  void Answer(int connection);

  static void WatchForks();
  void BecomeForkedChild() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  const std::string room_;
  const std::function<std::string(int connection)> answer_;
  std::atomic<bool> looked_{false};

  absl::Mutex mutex_;
  bool wanted_ ABSL_GUARDED_BY(mutex_) = true;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // A pointer, since a child by fork has to forget a thread that it does not have.
  Session* session_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace frugal
