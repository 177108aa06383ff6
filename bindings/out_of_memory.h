// What happens when memory runs out: who is told, and the error that the caller gets.

#ifndef FRUGAL_BINDINGS_OUT_OF_MEMORY_H_
#define FRUGAL_BINDINGS_OUT_OF_MEMORY_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "allocator/device_allocator.h"
#include "bindings/c_api.h"
#include "bindings/forked_child.h"
#include "bindings/gpu_memory.h"
#include "bindings/history.h"
#include "bindings/torch_compat.h"

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

// See frugal_set_explainer.
using OutOfMemoryExplainer = const char* (*)(const frugal_out_of_memory* facts);
void SetOutOfMemoryExplainer(OutOfMemoryExplainer explainer);

// A sentence for an error of native's, which knows nothing of us.
std::string HeldByUs(const Statistics& statistics);

// The error's text. Its first sentences are PyTorch's, by which other libraries know it; what follows is the
// explainer's, or else ours.
std::string OutOfMemoryMessage(const frugal_out_of_memory& facts);

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_OUT_OF_MEMORY_H_
