// A torch allocator that hands every call on to PyTorch's native one: the base of ours, which overrides what it
// does itself. The functions that differ between torch minors stand here under one name each.

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/adapter/torch_compat.h"

namespace frugal {

class NativeForwarder : public caching::CUDAAllocator {
 public:
  explicit NativeForwarder(caching::CUDAAllocator& native) : native_(native) {}

  caching::CUDAAllocator& native() const { return native_; }
  // What native puts into the DataPtrs of its cache; null as long as caching has been turned off whenever this was
  // asked. Native names another deleter while it is (caching_allocator_enable(False)), which does not know the cache.
  c10::DeleterFnPtr CacheDeleter() const;

  // --- One name for what torch's minors spell differently.

  virtual caching::SnapshotInfo Snapshot(MempoolId_t pool, bool include_traces) {
    return TakeSnapshot(native_, pool, include_traces);
  }
  virtual void RecordHistory(bool enabled, CreateContextFn create_context, size_t max_entries, RecordContext when,
                             bool clear, const std::vector<std::string>& skip_actions);
  // The context in which the block at `pointer` was allocated (torch 2.12).
  virtual ContextPointer ContextForPointer(const void* pointer);
  // Metadata for a live block's trace (torch 2.14).
  virtual void AnnotateMemory(const void* pointer, const std::string& metadata);
  // Whether `pool` may serve ordinary requests when memory is out; torch before 2.11 cannot take it back.
  virtual void SetUseOnOutOfMemory(c10::DeviceIndex device, MempoolId_t pool, bool value);
  // createOrIncrefPool() of native's has been called, as torch.cuda.MemPool does. `allocator`: of the pool's memory;
  // null: this one.
  virtual void NotePoolMade(c10::DeviceIndex /*device*/, MempoolId_t /*pool*/,
                            const std::shared_ptr<caching::CUDAAllocator>& /*allocator*/) {}
  // No block of the pool may be split (torch 2.10).
  virtual void NeverSplit(c10::DeviceIndex /*device*/, MempoolId_t /*pool*/) {}
  // Gives a DataPtr of native's the deleter that this allocator answers for.
  virtual c10::DataPtr Adopt(c10::DataPtr data) { return data; }

  // --- c10::Allocator and c10::DeviceAllocator

  c10::DataPtr allocate(size_t size) override { return native_.allocate(size); }
  c10::DeleterFnPtr raw_deleter() const override { return native_.raw_deleter(); }
  void copy_data(void* to, const void* from, size_t size) const override { native_.copy_data(to, from, size); }
  bool initialized() override { return native_.initialized(); }
  void emptyCache(MempoolId_t pool) override { native_.emptyCache(pool); }
  DeviceStats getDeviceStats(c10::DeviceIndex device) override { return native_.getDeviceStats(device); }
  void resetAccumulatedStats(c10::DeviceIndex device) override { native_.resetAccumulatedStats(device); }
  void resetPeakStats(c10::DeviceIndex device) override { native_.resetPeakStats(device); }
#if FRUGAL_TORCH_MINOR >= 10
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override { return native_.getMemoryInfo(device); }
#endif

  // --- CUDAAllocator: memory

  void* raw_alloc(size_t size) override { return native_.raw_alloc(size); }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    return native_.raw_alloc_with_stream(size, stream);
  }
  void raw_delete(void* pointer) override { native_.raw_delete(pointer); }
  void init(int device_count) override { native_.init(device_count); }
  double getMemoryFraction(c10::DeviceIndex device) override { return native_.getMemoryFraction(device); }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    native_.setMemoryFraction(fraction, device);
  }
  void enable(bool value) override { native_.enable(value); }
  bool isEnabled() const override { return native_.isEnabled(); }
  void cacheInfo(c10::DeviceIndex device, size_t* largest) override { native_.cacheInfo(device, largest); }
  void* getBaseAllocation(void* pointer, size_t* size) override { return native_.getBaseAllocation(pointer, size); }
  using CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override {
    native_.recordStream(data, stream);
  }
#if FRUGAL_TORCH_MINOR >= 10
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex device) override {
    return native_.getExpandableSegmentSizes(device);
  }
#endif
#if FRUGAL_TORCH_MINOR >= 13
  c10::DataPtr allocateWithAddress(size_t size, void* address) override {
    return Adopt(native_.allocateWithAddress(size, address));
  }
#endif

  // --- CUDAAllocator: private pools and graphs

  void beginAllocateToPool(c10::DeviceIndex device, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    native_.beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(c10::DeviceIndex device, MempoolId_t pool) override {
    native_.endAllocateToPool(device, pool);
  }
  void releasePool(c10::DeviceIndex device, MempoolId_t pool) override { native_.releasePool(device, pool); }
  int getPoolUseCount(c10::DeviceIndex device, MempoolId_t pool) override {
    return native_.getPoolUseCount(device, pool);
  }
  bool checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return native_.checkPoolLiveAllocations(device, pool, expected);
  }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(c10::DeviceIndex device, MempoolId_t pool) override {
    return native_.getCheckpointState(device, pool);
  }
  caching::CheckpointDelta setCheckpointPoolState(c10::DeviceIndex device,
                                                  std::shared_ptr<caching::AllocatorState> state) override;
#if FRUGAL_TORCH_MINOR >= 11
  void createOrIncrefPool(c10::DeviceIndex device, MempoolId_t pool,
                          std::shared_ptr<caching::CUDAAllocator> allocator) override {
    native_.createOrIncrefPool(device, pool, allocator);
    NotePoolMade(device, pool, allocator);
  }
  void setUseOnOOM(c10::DeviceIndex device, MempoolId_t pool, bool value) final {
    SetUseOnOutOfMemory(device, pool, value);
  }
#else
  void createOrIncrefPool(c10::DeviceIndex device, MempoolId_t pool, caching::CUDAAllocator* allocator) override {
    native_.createOrIncrefPool(device, pool, allocator);
    // Not owned.
    NotePoolMade(device, pool, std::shared_ptr<caching::CUDAAllocator>(std::shared_ptr<void>(), allocator));
  }
  void setUseOnOOM(c10::DeviceIndex device, MempoolId_t pool) final { SetUseOnOutOfMemory(device, pool, true); }
#endif
#if FRUGAL_TORCH_MINOR >= 10
  void setNoSplit(c10::DeviceIndex device, MempoolId_t pool) override {
    native_.setNoSplit(device, pool);
    NeverSplit(device, pool);
  }
#endif
#if FRUGAL_TORCH_MINOR >= 13
  void markCaptureBegin(c10::DeviceIndex device) override { native_.markCaptureBegin(device); }
  void markCaptureEnd(c10::DeviceIndex device) override { native_.markCaptureEnd(device); }
#endif

  // --- CUDAAllocator: other processes and devices

  caching::ShareableHandle shareIpcHandle(void* pointer) override { return native_.shareIpcHandle(pointer); }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override { return native_.getIpcDevPtr(std::move(handle)); }
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex accessed) override {
    native_.enablePeerAccess(device, accessed);
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size, cudaStream_t stream,
                          bool peer_access) override {
    return native_.memcpyAsync(to, to_device, from, from_device, size, stream, peer_access);
  }

  // --- CUDAAllocator: what happened

#if FRUGAL_TORCH_MINOR >= 11
  caching::SnapshotInfo snapshot(MempoolId_t pool, bool include_traces) final { return Snapshot(pool, include_traces); }
  void recordHistory(bool enabled, CreateContextFn create_context, size_t max_entries, RecordContext when, bool clear,
                     const std::vector<std::string>& skip_actions) final {
    RecordHistory(enabled, create_context, max_entries, when, clear, skip_actions);
  }
#else
  caching::SnapshotInfo snapshot(MempoolId_t pool) final { return Snapshot(pool, true); }
  void recordHistory(bool enabled, CreateContextFn create_context, size_t max_entries, RecordContext when,
                     bool clear) final {
    RecordHistory(enabled, create_context, max_entries, when, clear, {});
  }
#endif
  bool isHistoryEnabled() override { return native_.isHistoryEnabled(); }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& metadata) override {
    native_.recordAnnotation(metadata);
  }
  void pushCompileContext(std::string& context) override { native_.pushCompileContext(context); }
  void popCompileContext() override { native_.popCompileContext(); }
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    native_.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override {
    native_.attachAllocatorTraceTracker(std::move(tracker));
  }
#if FRUGAL_TORCH_MINOR >= 10
  void setUserMetadata(const std::string& metadata) override { native_.setUserMetadata(metadata); }
  std::string getUserMetadata() override { return native_.getUserMetadata(); }
#endif
#if FRUGAL_TORCH_MINOR >= 12
  ContextPointer getContextForPointer(const void* pointer) final { return ContextForPointer(pointer); }
  void attachOomRejectionObserver(caching::OomRejectionObserver observer) override {
    native_.attachOomRejectionObserver(std::move(observer));
  }
#endif
#if FRUGAL_TORCH_MINOR >= 14
  bool supportsUserMetadata() override { return native_.supportsUserMetadata(); }
  void annotateMemory(const void* pointer, const std::string& metadata) final { AnnotateMemory(pointer, metadata); }
#endif

  std::string name() override { return native_.name(); }

 private:
  caching::CUDAAllocator& native_;
  mutable std::atomic<c10::DeleterFnPtr> cache_deleter_{nullptr};
};

}  // namespace frugal
