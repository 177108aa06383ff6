// Gives memory back that has been idle for some time: the setting idle_release.

#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace frugal {

// A thread that calls a function at the end of each interval. It is needed since a program that is idle calls nobody:
// looking at the clock in each allocation would cost every program, and give back nothing of an idle one's.
// Thread-safety: any thread.
class IdleReleaser {
 public:
  using Release = std::function<void()>;
  // Returns, with the mutex held as before, when `woken` is true or the interval is over. Tests have a time of their
  // own.
  using Wait = std::function<void(absl::Mutex& mutex, const absl::Condition& woken, absl::Duration interval)>;

  explicit IdleReleaser(Release release, Wait wait = &IdleReleaser::WaitInRealTime);
  ~IdleReleaser() { Stop(); }
  IdleReleaser(const IdleReleaser&) = delete;
  IdleReleaser& operator=(const IdleReleaser&) = delete;

  // These two fail where there should be a thread now and the system gives none; whichever is called next tries again.

  // The length of all intervals from now on; infinite: no calls. Starts no thread before Begin.
  absl::Status SetInterval(absl::Duration interval) ABSL_LOCKS_EXCLUDED(mutex_);
  // There is something to call for: from now on there is a thread whenever there is an interval.
  absl::Status Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when no call is going on; the next one sees what was done before.
  void AwaitCall() ABSL_LOCKS_EXCLUDED(calling_);
  // Calls `release` on this thread as one of those calls.
  void Call(absl::FunctionRef<void()> release) ABSL_LOCKS_EXCLUDED(calling_);
  // Ends the thread, for good.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_) { static_cast<void>(StopWithin(absl::InfiniteDuration())); }
  // The same, but if a call takes longer, as one into a driver that hangs does, the thread is left to itself, and the
  // answer is false. The object must then last for ever.
  bool StopWithin(absl::Duration longest) ABSL_LOCKS_EXCLUDED(mutex_);

  // For the one object of a process, which is never destroyed: its thread ends before exit takes the driver away, makes
  // no call while the process forks, and a child by fork has none.
  void GuardProcess();

 private:
  static void WaitInRealTime(absl::Mutex& mutex, const absl::Condition& woken, absl::Duration interval);
  void Run();
  absl::Status StartIfWanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Release release_;
  const Wait wait_;

  absl::Mutex calling_;  // held during a call; never together with the other
  absl::Mutex mutex_;
  absl::Duration interval_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the thread has made its last call
  // A pointer, since a child by fork has to forget a thread that it does not have.
  std::thread* thread_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace frugal
