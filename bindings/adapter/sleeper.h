// Memory of all GPUs that falls asleep and wakes: all of them, or none.

#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "allocator/inspection.h"
#include "allocator/port/units.h"
#include "bindings/adapter/asleep_storages.h"
#include "bindings/adapter/gpu_set.h"
#include "bindings/adapter/gpu_sleep.h"
#include "bindings/adapter/history.h"
#include "bindings/adapter/routing.h"
#include "bindings/threads/forked_child.h"

namespace frugal {

// Thread-safety: any thread; one call waits for another. What allocates and frees meanwhile does not wait.
class Sleeper {
 public:
  // All must outlive the object.
  Sleeper(caching::CUDAAllocator& native, Routing& routing, History& history, GpuSet& gpus)
      : native_(native), routing_(routing), history_(history), gpus_(gpus) {}

  // What is meant of all GPUs sleeps, or on an error as before.
  absl::StatusOr<std::vector<SleptGpu>> FallAsleep(const SleepRequest& request);
  absl::StatusOr<std::vector<WokenGpu>> Wake(const TagChoice& tags);
  // What of the GPU's memory sleeps, and lacks physical memory.
  std::vector<Sleep::AsleepBlock> AsleepOn(GpuMemory& gpu) const;
  // How much that is.
  Bytes AsleepBytes(GpuMemory& gpu) const;
  // The block that starts there, if it sleeps.
  std::optional<BlockView> AsleepAt(const void* block) const;
  // Whoever asks for the storage's data, until it wakes, gets a c10::Error with this message. False: it does not sleep.
  bool Mark(c10::StorageImpl& storage, std::string message);
  // Copies what lies at `data` to the host if it sleeps; false: it does not. As ReadAsleep() where it was not copied.
  absl::StatusOr<bool> Read(const void* data, Bytes size, char* to);
  // Host memory in which no copy lies goes back, unless another thread is in one of these.
  void Trim();

  void BecomeForkedChild() { Renew(mutex_); }

 private:
  // What `call` returns, or what it throws as a status: a tracker of PyTorch's may throw.
  template <typename Call>
  static absl::Status ToStatus(Call&& call);

  caching::CUDAAllocator& native_;
  Routing& routing_;
  History& history_;
  GpuSet& gpus_;
  absl::Mutex mutex_;
  AsleepStorages storages_ ABSL_GUARDED_BY(mutex_);
  bool poison_ ABSL_GUARDED_BY(mutex_) = false;  // of what sleeps
  std::atomic<bool> may_sleep_{false};           // anything
};

}  // namespace frugal
