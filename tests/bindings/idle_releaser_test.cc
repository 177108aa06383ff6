#include "bindings/threads/idle_releaser.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace frugal {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(30);

// Time that goes on when the test says so. The thread's waits are seen one by one.
class TestTime {
 public:
  IdleReleaser::Wait wait() {
    return [this](absl::Mutex& mutex, const absl::Condition& woken, absl::Duration interval) {
      Wait(mutex, woken, interval);
    };
  }

  // Blocks until the thread waits for an interval of this length, then ends it.
  void EndInterval(absl::Duration interval) {
    absl::MutexLock lock(&mutex_);
    const auto waits = [this, interval]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return waited_for_ == interval; };
    mutex_.Await(absl::Condition(&waits));
    waited_for_ = absl::ZeroDuration();
    ended_ = true;
  }

 private:
  void Wait(absl::Mutex& releasers, const absl::Condition& woken, absl::Duration interval) {
    {
      absl::MutexLock lock(&mutex_);
      waited_for_ = interval;
    }
    // The releaser's own condition has to end a wait, too, so both are looked at in turn.
    while (!woken.Eval()) {
      releasers.Unlock();
      const bool over = HasEnded();
      releasers.Lock();
      if (over) return;
    }
  }

  // Waits a little. Not with the releaser's mutex: that one comes before this in the order of locks.
  bool HasEnded() {
    absl::MutexLock lock(&mutex_);
    const auto ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ended_; };
    return mutex_.AwaitWithTimeout(absl::Condition(&ended), absl::Milliseconds(1)) && std::exchange(ended_, false);
  }

  absl::Mutex mutex_;
  absl::Duration waited_for_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

class IdleReleaserTest : public testing::Test {
 protected:
  void Call() {
    absl::MutexLock lock(&mutex_);
    ++calls_;
  }
  void AwaitCalls(int count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return calls_ >= count; };
    mutex_.Await(absl::Condition(&enough));
    EXPECT_EQ(calls_, count);
  }
  int calls() {
    absl::MutexLock lock(&mutex_);
    return calls_;
  }

  absl::Mutex mutex_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  TestTime time_;
  IdleReleaser releaser_{[this] { Call(); }, time_.wait()};
};

TEST_F(IdleReleaserTest, CallsAtTheEndOfEachInterval) {
  ASSERT_TRUE(releaser_.SetInterval(kInterval).ok());
  ASSERT_TRUE(releaser_.Begin().ok());
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(calls(), i - 1);
    time_.EndInterval(kInterval);
    AwaitCalls(i);
  }
}

TEST_F(IdleReleaserTest, ANewIntervalBeginsAtOnce) {
  ASSERT_TRUE(releaser_.Begin().ok());
  ASSERT_TRUE(releaser_.SetInterval(kInterval).ok());
  time_.EndInterval(kInterval);
  AwaitCalls(1);
  ASSERT_TRUE(releaser_.SetInterval(absl::Hours(1)).ok());
  time_.EndInterval(absl::Hours(1));
  AwaitCalls(2);
}

TEST_F(IdleReleaserTest, StopDoesNotWaitForTheIntervalToEnd) {
  ASSERT_TRUE(releaser_.SetInterval(kInterval).ok());
  ASSERT_TRUE(releaser_.Begin().ok());
  releaser_.Stop();
  EXPECT_EQ(calls(), 0);
}

TEST(IdleReleaserStuckTest, ACallThatDoesNotEndIsLeftToItself) {
  struct Driver {
    absl::Mutex mutex;
    bool is_called ABSL_GUARDED_BY(mutex) = false;
    bool answers ABSL_GUARDED_BY(mutex) = false;
  };
  // The thread goes on with them after the test.
  auto* const driver = new Driver;
  const auto call = [driver] {
    absl::MutexLock lock(&driver->mutex);
    driver->is_called = true;
    driver->mutex.Await(absl::Condition(&driver->answers));
  };
  const auto no_wait = [](absl::Mutex&, const absl::Condition&, absl::Duration) {};
  static auto* const releaser = new IdleReleaser(call, no_wait);
  ASSERT_TRUE(releaser->SetInterval(kInterval).ok());
  ASSERT_TRUE(releaser->Begin().ok());
  {
    absl::MutexLock lock(&driver->mutex);
    driver->mutex.Await(absl::Condition(&driver->is_called));
  }
  EXPECT_FALSE(releaser->StopWithin(absl::ZeroDuration()));
  absl::MutexLock lock(&driver->mutex);
  driver->answers = true;
}

// While it lives, no thread can be started.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    // More than there are addresses.
    EXPECT_EQ(pthread_attr_setstacksize(&attributes, size_t{1} << 60), 0);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }
  ~NoThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

TEST_F(IdleReleaserTest, AThreadThatCannotBeStartedIsAnErrorAndIsTriedAgain) {
  {
    const NoThreads none;
    EXPECT_TRUE(releaser_.SetInterval(kInterval).ok()) << "nothing was begun";
    EXPECT_TRUE(absl::IsResourceExhausted(releaser_.Begin()));
    EXPECT_TRUE(absl::IsResourceExhausted(releaser_.SetInterval(absl::Hours(1))));
    EXPECT_TRUE(releaser_.SetInterval(absl::InfiniteDuration()).ok()) << "none is wanted";
    EXPECT_TRUE(absl::IsResourceExhausted(releaser_.SetInterval(kInterval)));
  }
  ASSERT_TRUE(releaser_.Begin().ok());
  time_.EndInterval(kInterval);
  AwaitCalls(1);
}

TEST(IdleReleaserProcessTest, AChildByForkHasNoThreadAndMayBeginAnew) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
#endif
  static auto* const releaser = new IdleReleaser([] {});
  releaser->GuardProcess();
  ASSERT_TRUE(releaser->SetInterval(kInterval).ok());
  ASSERT_TRUE(releaser->Begin().ok());
  const pid_t child = fork();
  if (child == 0) {
    releaser->AwaitCall();
    const bool begins = releaser->SetInterval(absl::Hours(1)).ok() && releaser->Begin().ok();
    releaser->Stop();
    _exit(begins ? 7 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  releaser->Stop();
}

}  // namespace
}  // namespace frugal
