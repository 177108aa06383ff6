#include "bindings/threads/idle_releaser.h"

#include <pthread.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

namespace frugal {
namespace {

IdleReleaser* guarded = nullptr;

// Before exit goes on without the thread. A call gives back 512 MiB at a time, which takes milliseconds.
constexpr absl::Duration kLongestExit = absl::Seconds(5);

}  // namespace

IdleReleaser::IdleReleaser(Release release, Wait wait) : release_(std::move(release)), wait_(std::move(wait)) {}

absl::Status IdleReleaser::SetInterval(absl::Duration interval) {
  absl::MutexLock lock(&mutex_);
  interval_ = interval;
  woken_ = true;
  return StartIfWanted();
}

absl::Status IdleReleaser::Begin() {
  absl::MutexLock lock(&mutex_);
  begun_ = true;
  return StartIfWanted();
}

absl::Status IdleReleaser::StartIfWanted() {
  if (!begun_ || stopped_ || thread_ != nullptr || interval_ == absl::InfiniteDuration()) return absl::OkStatus();
  try {
    thread_ = new std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(error.what());
  }
  return absl::OkStatus();
}

void IdleReleaser::AwaitCall() { absl::MutexLock lock(&calling_); }

void IdleReleaser::Call(absl::FunctionRef<void()> release) {
  absl::MutexLock lock(&calling_);
  release();
}

bool IdleReleaser::StopWithin(absl::Duration longest) {
  std::unique_ptr<std::thread> thread;
  bool ended = false;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = woken_ = true;
    thread.reset(std::exchange(thread_, nullptr));
    if (thread == nullptr) return true;
    ended = mutex_.AwaitWithTimeout(absl::Condition(&ended_), longest);
  }
  if (ended) {
    thread->join();
  } else {
    thread->detach();
  }
  return ended;
}

void IdleReleaser::WaitInRealTime(absl::Mutex& mutex, const absl::Condition& woken, absl::Duration interval) {
  mutex.AwaitWithTimeout(woken, interval);
}

void IdleReleaser::Run() {
  mutex_.Lock();
  while (!stopped_) {
    woken_ = false;
    wait_(mutex_, absl::Condition(&woken_), interval_);
    if (woken_) continue;
    mutex_.Unlock();
    Call(release_);
    mutex_.Lock();
  }
  ended_ = true;
  mutex_.Unlock();
}

void IdleReleaser::GuardProcess() {
  guarded = this;
  std::atexit([] { static_cast<void>(guarded->StopWithin(kLongestExit)); });
  const auto before = []() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    guarded->calling_.Lock();
    guarded->mutex_.Lock();
  };
  const auto in_parent = []() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    guarded->mutex_.Unlock();
    guarded->calling_.Unlock();
  };
  // Unlocking would wake whoever waits, and the thread is not here.
  const auto in_child = []() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (absl::Mutex* const mutex : {&guarded->calling_, &guarded->mutex_}) {
      // This very thread holds it, for all that debug builds know.
      mutex->ForgetDeadlockInfo();
      new (mutex) absl::Mutex;
    }
    guarded->thread_ = nullptr;
    guarded->begun_ = false;
  };
  pthread_atfork(before, in_parent, in_child);
}

}  // namespace frugal
