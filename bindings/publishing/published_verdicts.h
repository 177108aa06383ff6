// What Python has judged, for whoever asks this process while it runs: no Python runs for an answer.

#pragma once

#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace frugal {

// What leaks or grows, in a line for people.
struct PublishedVerdict {
  std::string kind;  // "leak", "suspect", "growing", "cycle" or "outside"
  int gpu = 0;
  std::string text;
  double bytes_per_epoch = 0;
};

// Thread-safety: any thread.
class PublishedVerdicts {
 public:
  // Of the process.
  static PublishedVerdicts& Instance() {
    static PublishedVerdicts* const instance = new PublishedVerdicts;
    return *instance;
  }

  void Publish(std::vector<PublishedVerdict> verdicts) {
    absl::MutexLock lock(&mutex_);
    verdicts_ = std::move(verdicts);
  }
  // nullopt: nobody judges but the library.
  std::optional<std::vector<PublishedVerdict>> Latest() {
    absl::MutexLock lock(&mutex_);
    return verdicts_;
  }
  // What was published is the parent's, and its list may have been in the midst of a change.
  void BecomeForkedChild() { new (this) PublishedVerdicts; }

 private:
  absl::Mutex mutex_;
  std::optional<std::vector<PublishedVerdict>> verdicts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal
