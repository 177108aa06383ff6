// PyTorch's setting expandable_segments, as it holds for our memory and native's.

#pragma once

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
  // Both must outlive the object.
  ExpandableSegments(Routing& routing, GpuSet& gpus) : routing_(routing), gpus_(gpus) {}

  // PyTorch has been told `settings`. Returns whether the program has it turned off.
  bool Follow(absl::string_view settings);

  // Whether new memory of the calling thread is mapped memory of ours.
  bool MapsMemory() const;
  // `settings` of native's as they are shown: they say "True" where memory is mapped. A program that turns it off, and
  // later writes back what it has read, turns it on again.
  std::string Shown(absl::string_view settings) const;
  void ShowIn(caching::AllocatorConfigInfo& native) const;

 private:
  Routing& routing_;
  GpuSet& gpus_;
};

}  // namespace frugal
