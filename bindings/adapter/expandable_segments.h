// PyTorch's setting expandable_segments, as it holds for our memory and native's.

#ifndef FRUGAL_BINDINGS_ADAPTER_EXPANDABLE_SEGMENTS_H_
#define FRUGAL_BINDINGS_ADAPTER_EXPANDABLE_SEGMENTS_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "bindings/adapter/gpu_set.h"
#include "bindings/adapter/routing.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/threads/forked_child.h"

namespace frugal {

// Our memory is mapped, as expandable segments are: neither cudaIpcGetMemHandle nor many a network card takes it. So
// programs turn the setting off in the middle of a run around what others are to open. From then on all new memory is
// cudaMalloc's, until they turn it on again. What the environment says of it is for native alone.
//
// Thread-safety: any thread.
class ExpandableSegments {
 public:
  // All must outlive the object.
  ExpandableSegments(caching::CUDAAllocator& native, Routing& routing, GpuSet& gpus)
      : native_(native), routing_(routing), gpus_(gpus) {}

  // The program is about to tell PyTorch `settings`: what native is to be told. While we serve, "True" gives native
  // back what it had before "False", and no more: the program may have read the "True" that is shown of our memory, and
  // others can open the memory of graphs only while native has it off.
  std::string ForNative(absl::string_view settings) ABSL_LOCKS_EXCLUDED(mutex_);
  // PyTorch has been told. Returns whether the program has it turned off.
  bool Follow(absl::string_view settings);

  // Whether new memory of the calling thread is mapped memory of ours.
  bool MapsMemory() const;
  // `settings` of native's as they are shown: they say "True" where memory is mapped. A program that turns it off, and
  // later writes back what it has read, turns it on again.
  std::string Shown(absl::string_view settings) const;
  void ShowIn(caching::AllocatorConfigInfo& native) const;

  // From here to Leave, what the calling thread asks for is of cudaMalloc, native's private pools included, where
  // nobody gets mapped memory meanwhile. May be nested. Enter may throw c10::Error.
  void Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  void BecomeForkedChild() { Renew(mutex_); }

 private:
  caching::AllocatorConfigInfo OfNative() const { return TakeSnapshot(native_, kDefaultPool, false).config_metadata; }
  void TellNative(bool value) const;

  caching::CUDAAllocator& native_;
  Routing& routing_;
  GpuSet& gpus_;

  absl::Mutex mutex_;
  // Before the program turned it off.
  bool native_had_ ABSL_GUARDED_BY(mutex_) = false;
  // Threads between Enter and Leave, and what native gets when there is none.
  int entered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool native_gets_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_ADAPTER_EXPANDABLE_SEGMENTS_H_
