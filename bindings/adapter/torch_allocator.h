// The allocator that PyTorch sees once we are installed: ours for ordinary memory, native's for the rest.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "bindings/adapter/expandable_segments.h"
#include "bindings/adapter/gpu_memory.h"
#include "bindings/adapter/gpu_set.h"
#include "bindings/adapter/history.h"
#include "bindings/adapter/native_forwarder.h"
#include "bindings/adapter/out_of_memory.h"
#include "bindings/adapter/private_pools.h"
#include "bindings/adapter/routing.h"
#include "bindings/adapter/sleeper.h"
#include "bindings/adapter/tags.h"
#include "bindings/adapter/torch_compat.h"
#include "bindings/settings/settings.h"

namespace frugal {

// Thin: every member function finds out whose memory is meant and hands the call on. Made once, by Instance(), and
// never destroyed: tensors freed by static destructors still come here. Thread-safety: any thread.
class TorchAllocator final : public NativeForwarder {
 public:
  // Makes the allocator of the process, in front of `native`. Called once.
  static TorchAllocator& Create(caching::CUDAAllocator& native);
  // null before Create.
  static TorchAllocator* Instance() { return instance_.load(std::memory_order_acquire); }

  Routing& routing() { return routing_; }
  GpuSet& gpus() { return gpus_; }
  History& history() { return history_; }
  ExpandableSegments& expandable_segments() { return expandable_segments_; }
  Tags& tags() { return tags_; }
  Sleeper& sleeper() { return sleeper_; }
  // From now on calls of RecordHistory are for us alone: native has what it needs.
  void SetHistoryOnlyOurs(bool value) { history_only_ours_.store(value); }

  // Throws c10::Error if the driver fails.
  void Apply(const Settings& settings);
  // The deleter of every DataPtr that we hand out, whosever memory it is, but for native's while caching is turned off.
  // Does not throw.
  static void DeleteBlock(void* pointer);

  // Gives all our idle memory back to the driver; returns how much that was.
  Bytes Trim();

  // Whether the memory is free once `data` is gone: not where another process or object has it, too.
  bool IsOwner(const c10::DataPtr& data) const {
    return data.get_deleter() == &DeleteBlock || data.get_deleter() == CacheDeleter();
  }

  // Called in a child by fork, before anything else. If the parent had begun to use CUDA, the child cannot; the tensors
  // that it inherited are the parent's, and to free one there does nothing.
  void BecomeForkedChild();
  // The parent had begun to use CUDA.
  bool is_forked_from_cuda() const { return forked_from_cuda_.load(std::memory_order_relaxed); }

  // What each private pool holds, of all GPUs. Looks at every block.
  std::vector<PoolFigures> DescribePools();

  // As allocate(), but memory of cudaMalloc, which other processes can open.
  c10::DataPtr AllocateShareable(size_t size);

  // --- NativeForwarder's names

  caching::SnapshotInfo Snapshot(MempoolId_t pool, bool include_traces) override;
  void RecordHistory(bool enabled, CreateContextFn create_context, size_t max_entries, RecordContext when, bool clear,
                     const std::vector<std::string>& skip_actions) override;
  ContextPointer ContextForPointer(const void* pointer) override;
  void AnnotateMemory(const void* pointer, const std::string& metadata) override;
  void SetUseOnOutOfMemory(c10::DeviceIndex device, MempoolId_t pool, bool value) override;
  void NotePoolMade(c10::DeviceIndex device, MempoolId_t pool,
                    const std::shared_ptr<caching::CUDAAllocator>& allocator) override {
    pools_.NoteMade({device, pool}, SourceOf(allocator));
  }
  void NeverSplit(c10::DeviceIndex device, MempoolId_t pool) override;
  c10::DataPtr Adopt(c10::DataPtr data) override;

  // --- c10::Allocator and c10::DeviceAllocator

  c10::DataPtr allocate(size_t size) override;
#if FRUGAL_TORCH_MINOR >= 13
  c10::DataPtr allocateWithAddress(size_t size, void* address) override;
#endif
  c10::DeleterFnPtr raw_deleter() const override;
  void emptyCache(MempoolId_t pool) override;
  DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;

  // --- CUDAAllocator

  void* raw_alloc(size_t size) override;
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override;
  void raw_delete(void* pointer) override;
  void init(int device_count) override;
  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  void enable(bool value) override;
  void cacheInfo(c10::DeviceIndex device, size_t* largest) override;
  void* getBaseAllocation(void* pointer, size_t* size) override;
  using CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override;
  void beginAllocateToPool(c10::DeviceIndex device, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, MempoolId_t pool) override;
  void releasePool(c10::DeviceIndex device, MempoolId_t pool) override;
  bool checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override;
  std::shared_ptr<caching::AllocatorState> getCheckpointState(c10::DeviceIndex device, MempoolId_t pool) override;
  caching::CheckpointDelta setCheckpointPoolState(c10::DeviceIndex device,
                                                  std::shared_ptr<caching::AllocatorState> state) override;
  caching::ShareableHandle shareIpcHandle(void* pointer) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex accessed) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size, cudaStream_t stream,
                          bool peer_access) override;
  void pushCompileContext(std::string& context) override;
  void popCompileContext() override;
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override;
  // "native" like the one that we stand in for: libraries that depend on its behaviour compare the name.
  std::string name() override { return "native"; }

 private:
  explicit TorchAllocator(caching::CUDAAllocator& native);

  // What serves a request, while there are exceptions.
  Routing::Destination DestinationOf(c10::DeviceIndex device, cudaStream_t stream);
  // The pool gets memory that stays where it is from now on, of the kind returned. `captured`: a graph may be captured
  // into it.
  MemoryKind KeepPool(c10::DeviceIndex device, MempoolId_t pool, bool captured);
  // A block at the address, of the stream where it is given. Throws c10::Error if there is no free memory.
  c10::DataPtr AllocateAt(GpuMemory& gpu, MempoolId_t pool, std::optional<Stream> stream, Address address, Bytes size);
  // REQUIRES: `device` is the current one. `is_external`: the program made the stream; means nothing of default
  // streams.
  void* AllocateBlock(c10::DeviceIndex device, size_t size, cudaStream_t handle, bool is_external);
  c10::DataPtr AllocateNative(size_t size);
  // Of requests that are not ordinary.
  c10::DataPtr AllocateRouted(const Routing::Destination& to, c10::DeviceIndex device, size_t size, cudaStream_t handle,
                              bool is_external);
  void* AllocateRawRouted(const Routing::Destination& to, c10::DeviceIndex device, size_t size, cudaStream_t stream);
  void* AllocateTagged(const Routing::Destination& to, c10::DeviceIndex device, size_t size, cudaStream_t handle,
                       bool is_external);
  void* AllocateFrom(MemorySource source, GpuMemory& gpu, size_t size, Stream stream, Sample sample);
  // We could not serve the request. Out of memory: pools that are there for this moment may, or it fails; otherwise
  // native does, whose own error is thrown if it cannot.
  void* AllocateElsewhere(GpuMemory& gpu, size_t size, cudaStream_t stream, const absl::Status& status);
  void* AllocateFromPools(GpuMemory& gpu, size_t size, cudaStream_t stream);
  absl::Status FreeBlock(GpuMemory& gpu, void* pointer);
  absl::Status FreeRecorded(GpuMemory& gpu, void* pointer);
  Settings CurrentSettings() ABSL_LOCKS_EXCLUDED(settings_mutex_);
  // What native has of a private pool goes back, unless one is open. Throws nothing: MemPool's destructor calls it.
  void EmptyNatives(MempoolId_t pool);
  // Native's figures fell: what ours rise to from here on is no peak together with native's. Takes no lock, since the
  // caller may hold native's of a GPU: PyTorch's FreeMemoryCallbacks are called under it.
  void NoteNativeFreed();

  static std::atomic<TorchAllocator*> instance_;

  absl::Mutex settings_mutex_;
  Settings settings_ ABSL_GUARDED_BY(settings_mutex_);

  Routing routing_;
  PrivatePools pools_;
  History history_;
  OutOfMemoryObservers out_of_memory_observers_;
  GpuSet gpus_;
  ExpandableSegments expandable_segments_;
  Tags tags_;
  Sleeper sleeper_;
  std::atomic<bool> history_only_ours_{false};
  std::atomic<bool> is_listened_to_{false};  // by a tracker of PyTorch's: NCCL's process group has them
  std::atomic<bool> forked_from_cuda_{false};
  // Whether our memory may move; see PolicySettings.
  std::atomic<bool> remaps_{true};
};

}  // namespace frugal
