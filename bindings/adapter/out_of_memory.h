// What happens when memory runs out: who is told, and the error that the caller gets.

#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/device_allocator.h"
#include "bindings/adapter/gpu_memory.h"
#include "bindings/adapter/history.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/threads/forked_child.h"
#include "bindings/tracking/out_of_memory_verdict.h"

namespace frugal {

// PyTorch's observers of out-of-memory errors, for ours and native's alike. Thread-safety: any thread.
class OutOfMemoryObservers {
 public:
  // Observers hear nothing of native's errors on this thread: the request is about to be tried again.
  class Silence {
   public:
    Silence();
    ~Silence();
    Silence(const Silence&) = delete;
    Silence& operator=(const Silence&) = delete;
  };

  void Attach(caching::CUDAAllocator& native, caching::OutOfMemoryObserver observer);
  // Called with no lock held.
  void Notify(int64_t device, size_t requested, size_t total, size_t free);

  void BecomeForkedChild() { Renew(mutex_); }

 private:
  absl::Mutex mutex_;
  std::vector<caching::OutOfMemoryObserver> observers_ ABSL_GUARDED_BY(mutex_);
};

// Tells history, the profiler and the observers, in native's order, and throws c10::OutOfMemoryError.
// REQUIRES: no lock is held.
[[noreturn]] void ThrowOutOfMemory(GpuMemory& gpu, size_t requested, cudaStream_t stream, History& history,
                                   OutOfMemoryObservers& observers);

// Says why memory ran out: its text follows PyTorch's first sentences in the error. Called on the thread that asked,
// with no lock held, before the error is thrown. The text is read before it is called again on the same thread; null:
// it has nothing to say.
using OutOfMemoryExplainer = const char* (*)(const OutOfMemoryFacts& facts);
void SetOutOfMemoryExplainer(OutOfMemoryExplainer explainer);

// A sentence for an error of native's, which knows nothing of us.
std::string HeldByUs(const Statistics& statistics);

// The error's text. Its first sentences are PyTorch's, by which other libraries know it; what follows is the
// explainer's, or else ours.
std::string OutOfMemoryMessage(const OutOfMemoryFacts& facts);

}  // namespace frugal
