// What Python has judged, for whoever asks this process while it runs: no Python runs for an answer.

#ifndef FRUGAL_BINDINGS_PUBLISHING_TOLD_VERDICTS_H_
#define FRUGAL_BINDINGS_PUBLISHING_TOLD_VERDICTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bindings/threads/forked_child.h"

namespace frugal {

// What leaks or grows, in a line for people.
struct ToldVerdict {
  std::string kind;  // "leak", "suspect", "growing", "cycle" or "outside"
  int gpu = 0;
  std::string text;
  double bytes_per_epoch = 0;
};

// Thread-safety: any thread.
class ToldVerdicts {
 public:
  // Of the process.
  static ToldVerdicts& Instance();

  void Tell(std::vector<ToldVerdict> verdicts) {
    absl::MutexLock lock(&mutex_);
    told_ = std::move(verdicts);
  }
  // nullopt: nobody judges but the library.
  std::optional<std::vector<ToldVerdict>> Latest() {
    absl::MutexLock lock(&mutex_);
    return told_;
  }
  // What was told is the parent's.
  void BecomeForkedChild();

 private:
  absl::Mutex mutex_;
  std::optional<std::vector<ToldVerdict>> told_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_PUBLISHING_TOLD_VERDICTS_H_
