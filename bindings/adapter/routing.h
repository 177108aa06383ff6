// Where a request's memory comes from: which pool, of which kind, or PyTorch's native allocator.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/memory_source.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/threads/forked_child.h"

namespace frugal {

// All new memory is ours, but for what is asked for while we are disabled or caching is turned off. Of pools, see
// PrivatePools.
//
// Thread-safety: any thread.
class Routing {
 public:
  using Filter = std::function<bool(cudaStream_t)>;

  struct Destination {
    bool is_native = false;
    // If not is_native:
    MempoolId_t pool = kDefaultPool;
    MemoryKind kind = MemoryKind::kMovable;
    uint8_t tag = 0;               // see Tags
    bool may_be_captured = false;  // a graph is perhaps being captured on the device

    bool is_ordinary() const { return !is_native && pool == kDefaultPool && kind == MemoryKind::kMovable && tag == 0; }
  };

  // Called for every allocation: one load while nothing is out of the ordinary.
  bool HasExceptions() const { return exceptions_.load(std::memory_order_acquire) != 0; }
  Destination DestinationOf(c10::DeviceIndex device, cudaStream_t stream) const;

  // The next request of all is to begin a period (GpuStatistics::BeginPeriod). Returns what was set before.
  bool SetNewPeriod(bool value) {
    return new_period_.load(std::memory_order_acquire) == value ? value : SetAll(new_period_, value);
  }

  // We are disabled: all new memory comes from native.
  void SetPassthrough(bool value) { static_cast<void>(SetAll(passthrough_, value)); }
  bool passthrough() const { return passthrough_.load(std::memory_order_relaxed); }
  // PyTorch was told not to cache (caching_allocator_enable(False)), which native knows how to do.
  void SetUncached(bool value) { static_cast<void>(SetAll(uncached_, value)); }
  // New memory is to be cudaMalloc's: everybody's, or the calling thread's from Enter to Leave. May be nested; the
  // outermost two return true. Leave without Enter does nothing.
  void SetCudaMalloc(bool value);
  bool cuda_malloc() const { return cuda_malloc_.load(std::memory_order_relaxed); }
  bool EnterCudaMalloc();
  bool LeaveCudaMalloc();
  // Of what the calling thread gets of ours.
  MemoryKind Kind() const;
  // A thread has so many more tags around what it allocates.
  void AddExceptions(int change) { exceptions_.fetch_add(change, std::memory_order_release); }
  // Whether the calling thread gets native's memory whatever it asks for.
  bool AllGoesToNative() const;

  // Requests on `device` that `filter` accepts belong to `pool` until Close. `may_capture`: not as use_mem_pool opens a
  // pool, but for a graph; waits for a WithoutCapture of that device.
  // `stream`: of PyTorch's own, which a graph will be captured from.
  void Open(c10::DeviceIndex device, MempoolId_t pool, MemoryKind kind, Filter filter, bool may_capture,
            std::optional<cudaStream_t> stream = std::nullopt);
  void Close(c10::DeviceIndex device, MempoolId_t pool);
  // What is open of the pool gets this kind from now on.
  void SetKind(c10::DeviceIndex device, MempoolId_t pool, MemoryKind kind);
  bool HasOpenPool(c10::DeviceIndex device) const;
  // A graph is perhaps being captured on `device`.
  bool MayCapture(c10::DeviceIndex device) const;
  // Calls `call` unless a graph is perhaps being captured on `device`; none begins to be meanwhile, so that `call` may
  // have the host wait for the whole GPU. It may throw, and must not open a pool itself.
  void WithoutCapture(c10::DeviceIndex device, absl::FunctionRef<void()> call) const;

  // Free memory of `pool` may serve ordinary requests that would fail otherwise (torch.cuda.MemPool's use_on_oom).
  void SetUseOnOutOfMemory(c10::DeviceIndex device, MempoolId_t pool, bool value);
  std::vector<MempoolId_t> PoolsForOutOfMemory(c10::DeviceIndex device) const;

  void BecomeForkedChild();

 private:
  struct Route {
    c10::DeviceIndex device;
    MempoolId_t pool;
    MemoryKind kind;
    Filter filter;
    bool may_capture;
    // Of one that may capture: the stream to be captured, where it lasts, and whether it was seen to be.
    std::optional<cudaStream_t> stream;
    mutable bool was_captured = false;

    // Whether PyTorch has ended it, also where a capture failed, of which nobody is told (torch 2.11).
    bool IsOver() const;
  };

  // Returns what the flag was before.
  bool SetAll(std::atomic<bool>& flag, bool value);

  // Reasons to look closer: open routes, each of the flags that is set, threads that get memory of cudaMalloc, and tags
  // that threads have entered.
  std::atomic<int> exceptions_{0};
  std::atomic<bool> new_period_{false};
  std::atomic<bool> passthrough_{false};
  std::atomic<bool> uncached_{false};
  std::atomic<bool> cuda_malloc_{false};
  // By device: held by who opens a pool for a graph, and shared by those who rely on none being opened. Taken before
  // `mutex_`.
  mutable std::array<absl::Mutex, C10_COMPILE_TIME_MAX_GPUS> opening_for_capture_;
  mutable absl::Mutex mutex_;
  std::vector<Route> routes_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<c10::DeviceIndex, MempoolId_t>> pools_for_out_of_memory_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal
