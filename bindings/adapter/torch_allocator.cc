#include "bindings/adapter/torch_allocator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "bindings/adapter/inconsistency_report.h"
#include "bindings/adapter/ipc.h"
#include "bindings/adapter/listeners.h"
#include "bindings/adapter/native_memory.h"
#include "bindings/adapter/pytorch_streams.h"
#include "bindings/adapter/request_size.h"
#include "bindings/adapter/site_sampler.h"
#include "bindings/adapter/snapshot.h"
#include "bindings/settings/pytorch_settings.h"
#include "bindings/threads/forked_child.h"

namespace frugal {
namespace {

// For a deleter, where an exception would end the process.
C10_NOINLINE void WarnNotFreed(void* pointer, const absl::Status& status) {
  TORCH_WARN("frugal_alloc could not free ", pointer, ": ", status.message());
}

// `size`: what the policy's Free returned.
C10_ALWAYS_INLINE absl::Status AfterFree(GpuMemory& gpu, void* pointer, const absl::StatusOr<Bytes>& size) {
  if (C10_UNLIKELY(!size.ok())) return size.status();
  TellAfterFree(gpu, pointer, *size);
  return absl::OkStatus();
}

}  // namespace

std::atomic<TorchAllocator*> TorchAllocator::instance_{nullptr};

TorchAllocator::TorchAllocator(caching::CUDAAllocator& native)
    : NativeForwarder(native),
      gpus_(native, routing_, history_),
      expandable_segments_(routing_, gpus_),
      tags_(routing_),
      sleeper_(native, routing_, history_, gpus_) {}

TorchAllocator& TorchAllocator::Create(caching::CUDAAllocator& native) {
  TORCH_INTERNAL_ASSERT(Instance() == nullptr);
  ThrowFromFailedChecks();
  auto* allocator = new TorchAllocator(native);
  instance_.store(allocator, std::memory_order_release);
  return *allocator;
}

void TorchAllocator::BecomeForkedChild() {
  bool in_use = native().initialized();
  gpus_.ForEach([&](GpuMemory&) { in_use = true; });
  if (in_use) forked_from_cuda_.store(true, std::memory_order_relaxed);
  Renew(settings_mutex_);
  routing_.BecomeForkedChild();
  tags_.BecomeForkedChild();
  sleeper_.BecomeForkedChild();
  pools_.BecomeForkedChild();
  history_.BecomeForkedChild();
  out_of_memory_observers_.BecomeForkedChild();
  SiteTable::Instance().BecomeForkedChild();
  gpus_.BecomeForkedChild();
}

// --- Allocation. What is on the way of every tensor is put into its callers: calls would be a tenth of it.

C10_ALWAYS_INLINE void* TorchAllocator::AllocateBlock(c10::DeviceIndex device, size_t size, cudaStream_t handle,
                                                      bool is_external) {
  GpuMemory& gpu = gpus_.Get(device);
  Stream stream{reinterpret_cast<uint64_t>(handle)};
  if (IsDefaultStream(handle)) {
    const uint64_t context = gpu.device().CurrentContext();
    stream = C10_LIKELY(context == 0 && handle == nullptr) ? Stream{} : DefaultStream(gpu.device(), handle, context);
  } else if (C10_UNLIKELY(is_external)) {
    stream = gpu.device().WithLife(stream);
  }
  const Sample sample = SiteSampler::Next(size);
  if (C10_UNLIKELY(history_.listening())) return AllocateFrom(MemorySource(), gpu, size, stream, sample);
  const absl::StatusOr<Allocation> allocation =
      gpu.allocator().Allocate(Bytes(static_cast<int64_t>(size)), stream, nullptr, RoundUpAsTold(size), sample);
  if (C10_UNLIKELY(!allocation.ok())) return AllocateElsewhere(gpu, size, handle, allocation.status());
  void* const block = allocation->address.pointer();
  TellOfAllocation(gpu, block, allocation->size);
  return block;
}

c10::DataPtr TorchAllocator::allocate(size_t size) {
  CheckSize(size);
  const c10::DeviceIndex device = CurrentDevice();
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device);
  const cudaStream_t handle = stream.stream();
  if (C10_UNLIKELY(routing_.HasExceptions())) {
    const Routing::Destination to = DestinationOf(device, handle);
    if (!to.is_ordinary()) return AllocateRouted(to, device, size, handle, IsExternal(stream, handle));
  }
  void* const block = C10_LIKELY(size > 0) ? AllocateBlock(device, size, handle, IsExternal(stream, handle)) : nullptr;
  return {block, block, &DeleteBlock, c10::Device(c10::DeviceType::CUDA, device)};
}

void* TorchAllocator::raw_alloc(size_t size) {
  return size == 0 ? nullptr : raw_alloc_with_stream(size, c10::cuda::getCurrentCUDAStream(CurrentDevice()).stream());
}

void* TorchAllocator::raw_alloc_with_stream(size_t size, cudaStream_t stream) {
  if (size == 0) return nullptr;
  CheckSize(size);
  const c10::DeviceIndex device = CurrentDevice();
  if (C10_UNLIKELY(routing_.HasExceptions())) {
    const Routing::Destination to = DestinationOf(device, stream);
    if (!to.is_ordinary()) return AllocateRawRouted(to, device, size, stream);
  }
  return AllocateBlock(device, size, stream, IsOfProgram(stream, device));
}

C10_NOINLINE void* TorchAllocator::AllocateFrom(MemorySource source, GpuMemory& gpu, size_t size, Stream stream,
                                                Sample sample) {
  std::optional<History::Operation> operation;
  if (history_.listening()) operation.emplace(history_, native(), RecordContext::STATE);
  const Bytes requested(static_cast<int64_t>(size));
  // The block's, until DropAnnotation, also if a tracker throws.
  auto* const note = operation.has_value() && operation->context() ? new BlockNote{operation->context()} : nullptr;
  const Bytes least = RoundUpAsTold(size);
  const absl::StatusOr<Allocation> allocation =
      source == MemorySource() ? gpu.allocator().Allocate(requested, stream, note, least, sample)
                               : gpu.allocator().AllocateFrom(source, requested, stream, note, least, sample);
  if (!allocation.ok()) {
    delete note;
    return AllocateElsewhere(gpu, size, reinterpret_cast<cudaStream_t>(stream.id), allocation.status());
  }
  void* const block = allocation->address.pointer();
  TellOfAllocation(gpu, block, allocation->size);
  return block;
}

void* TorchAllocator::AllocateElsewhere(GpuMemory& gpu, size_t size, cudaStream_t stream, const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return AllocateFromPools(gpu, size, stream);
  if (gpu.NoteRefusal(status)) TellOfRefusal(gpu, status, CurrentSettings());
  return AllocateFromNative(gpus_, gpu.ordinal(), size, [&] { return native().raw_alloc_with_stream(size, stream); });
}

c10::DataPtr TorchAllocator::AllocateShareable(size_t size) {
  routing_.EnterCudaMalloc();
  const absl::Cleanup leave = [this] { routing_.LeaveCudaMalloc(); };
  return allocate(size);
}

c10::DataPtr TorchAllocator::AllocateNative(size_t size) {
  return Adopt(AllocateFromNative(gpus_, CurrentDevice(), size, [&] { return native().allocate(size); }));
}

c10::DataPtr TorchAllocator::Adopt(c10::DataPtr data) {
  // PyTorch compares deleters to tell the allocator's memory from other memory; a DataPtr with another deleter
  // (uncached memory) is not the cache's, ours or native's.
  const c10::DeleterFnPtr natives = CacheDeleter();
  static_cast<void>(data.get_deleter() == natives && data.compare_exchange_deleter(natives, &DeleteBlock));
  return data;
}

// --- Freeing

C10_ALWAYS_INLINE absl::Status TorchAllocator::FreeBlock(GpuMemory& gpu, void* pointer) {
  TellBeforeFree(pointer);
  if (C10_UNLIKELY(history_.listening())) return FreeRecorded(gpu, pointer);
  return AfterFree(gpu, pointer, gpu.allocator().Free(Address(pointer)));
}

absl::Status TorchAllocator::FreeRecorded(GpuMemory& gpu, void* pointer) {
  const History::Operation operation(history_, native(), RecordContext::ALL);
  absl::Status status = AfterFree(gpu, pointer, gpu.allocator().Free(Address(pointer)));
  history_.WarnOfFailures();
  return status;
}

void TorchAllocator::raw_delete(void* pointer) {
  if (pointer == nullptr) return;
  GpuMemory* const gpu = gpus_.OwnerOf(pointer);
  if (gpu == nullptr) {
    if (is_forked_from_cuda()) return;
    // What we do not know is native's, or it knows how to complain.
    native().raw_delete(pointer);
    return NoteNativeFreed();
  }
  const absl::Status status = FreeBlock(*gpu, pointer);
  TORCH_CHECK(!absl::IsNotFound(status), "invalid device pointer: ", pointer);
  TORCH_CHECK(status.ok(), "frugal_alloc could not free ", pointer, ": ", status.message());
}

void TorchAllocator::DeleteBlock(void* pointer) {
  TorchAllocator& self = *instance_.load(std::memory_order_relaxed);
  GpuMemory* const gpu = self.gpus_.OwnerOf(pointer);
  if (gpu == nullptr) {
    if (self.is_forked_from_cuda()) return;
    const c10::DeleterFnPtr natives = self.CacheDeleter();
    (natives != nullptr ? natives : self.native().raw_deleter())(pointer);
    return self.NoteNativeFreed();
  }
  const absl::Status status = self.FreeBlock(*gpu, pointer);
  if (C10_UNLIKELY(!status.ok())) WarnNotFreed(pointer, status);
}

void TorchAllocator::Apply(const Settings& settings) {
  gpus_.SetMemoryLimit(settings.memory_limit);
  gpus_.SetIdleRelease(settings.idle_release);
  gpus_.SetTracking(settings.track);
  gpus_.SetCheckLevel(settings.check);
  gpus_.SetPolicy(settings.policy);
  remaps_.store(settings.policy.remap);
  pools_.SetMapped(settings.maps_pools);
  absl::MutexLock lock(&settings_mutex_);
  settings_ = settings;
}

Settings TorchAllocator::CurrentSettings() {
  absl::MutexLock lock(&settings_mutex_);
  return settings_;
}

void TorchAllocator::NoteNativeFreed() {
  // While all new memory is native's, ours only falls.
  if (!routing_.passthrough()) routing_.SetNewPeriod(true);
}

c10::DeleterFnPtr TorchAllocator::raw_deleter() const {
  const c10::DeleterFnPtr natives = native().raw_deleter();
  return natives == CacheDeleter() ? &DeleteBlock : natives;
}

Bytes TorchAllocator::Trim() {
  Bytes freed;
  gpus_.ForEach([&](GpuMemory& gpu) { freed += gpu.Trim(); });
  return freed;
}

void TorchAllocator::emptyCache(MempoolId_t pool) {
  {
    const History::Operation operation(history_, native(), RecordContext::ALL);
    gpus_.ForEach([&](GpuMemory& gpu) {
      // What an open pool has is left to it, as native leaves it.
      const bool is_all = pool == kDefaultPool && !routing_.HasOpenPool(gpu.ordinal());
      gpu.Trim(kUnlimited, is_all ? std::nullopt : OnlyPool(ToPoolId(pool)));
    });
    history_.WarnOfFailures();
  }
  // Native counts one wait, too, for each GPU that it knows.
  if (pool == kDefaultPool && native().initialized()) {
    gpus_.ForEach([](GpuMemory& gpu) { gpu.statistics().ForgetHostWait(); });
  }
  if (pool == kDefaultPool) {
    native().emptyCache(pool);
    sleeper_.Trim();
  } else {
    EmptyNatives(pool);
  }
  gpus_.ForEach([](GpuMemory& gpu) { gpu.native_share().NoteReserved(); });
}

// It has something of pools from the time before us at most. While one is open, it asserts before it changes anything;
// another thread may open one at any moment, so to ask first is no help. What stays goes with the next empty_cache().
void TorchAllocator::EmptyNatives(MempoolId_t pool) {
  bool has_memory = false;
  gpus_.ForEach([&](GpuMemory& gpu) { has_memory |= gpu.native_share().Reserved() > Bytes(0); });
  if (!has_memory) return;
  try {
    native().emptyCache(pool);
  } catch (const c10::Error&) {  // NOLINT(bugprone-empty-catch)
  }
}

void TorchAllocator::recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) {
  if (data.get() == nullptr || is_forked_from_cuda()) return;
  // Memory that somebody else frees is somebody else's to keep.
  if (data.get_deleter() != &DeleteBlock) return native().recordStream(data, stream);
  GpuMemory* const gpu = gpus_.OwnerOf(data.get_context());
  if (gpu == nullptr) {
    // Native acts only on DataPtrs with its own deleter.
    c10::DataPtr borrowed(data.get(), data.get_context(), CacheDeleter(), data.device());
    native().recordStream(borrowed, stream);
    borrowed.release_context();
    return;
  }
  const absl::Status status = gpu->allocator().RecordStream(Address(data.get_context()), ToStream(gpus_, *gpu, stream));
  TORCH_CHECK(status.ok(), "frugal_alloc could not note that ", data.get(), " is used by a stream: ", status.message());
}

// --- What PyTorch asks about memory

void TorchAllocator::init(int device_count) {
  if (!native().initialized()) native().init(device_count);
}

DeviceStats TorchAllocator::getDeviceStats(c10::DeviceIndex device) {
  GpuMemory* const gpu = gpus_.Find(device);
  return gpu == nullptr ? native().getDeviceStats(device) : gpu->statistics().Together();
}

void TorchAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) return gpu->statistics().ResetAccumulated();
  native().resetAccumulatedStats(device);
}

void TorchAllocator::resetPeakStats(c10::DeviceIndex device) {
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) return gpu->statistics().ResetPeaks();
  native().resetPeakStats(device);
}

double TorchAllocator::getMemoryFraction(c10::DeviceIndex device) {
  GpuMemory* const gpu = gpus_.Find(device);
  // What native was told is what we leave it.
  if (gpu != nullptr && gpu->native_share().has_limit()) return gpu->limit().Fraction();
  return native().getMemoryFraction(device);
}

void TorchAllocator::setMemoryFraction(double fraction, c10::DeviceIndex device) {
  GpuMemory* const gpu = gpus_.Find(device);
  if (gpu == nullptr) return native().setMemoryFraction(fraction, device);
  const double before = native().getMemoryFraction(device);
  native().setMemoryFraction(fraction, device);
  const absl::Status status = gpu->limit().SetFraction(fraction);
  if (!status.ok()) native().setMemoryFraction(before, device);
  TORCH_CHECK(status.ok(), "frugal_alloc could not limit memory: ", status.message());
}

void TorchAllocator::enable(bool value) {
  native().enable(value);
  routing_.SetUncached(!value || IsCachingTurnedOff());
}

void TorchAllocator::cacheInfo(c10::DeviceIndex device, size_t* largest) {
  native().cacheInfo(device, largest);
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) {
    *largest = std::max(*largest, static_cast<size_t>(gpu->allocator().inspect().LargestFreeBlock().count()));
  }
}

void* TorchAllocator::getBaseAllocation(void* pointer, size_t* size) {
  GpuMemory* const gpu = gpus_.OwnerOf(pointer);
  if (gpu == nullptr) return native().getBaseAllocation(pointer, size);
  const std::optional<SegmentView> segment = gpu->allocator().inspect().FindSegment(Address(pointer));
  TORCH_CHECK(segment.has_value(), "invalid device pointer: ", pointer);
  if (size != nullptr) *size = static_cast<size_t>(segment->size.count());
  return segment->address.pointer();
}

// --- Processes, devices

std::shared_ptr<void> TorchAllocator::getIpcDevPtr(std::string handle) {
  CheckHandle(handle);
  return native().getIpcDevPtr(std::move(handle));
}

caching::ShareableHandle TorchAllocator::shareIpcHandle(void* pointer) {
  GpuMemory* const gpu = gpus_.OwnerOf(pointer);
  return gpu == nullptr ? native().shareIpcHandle(pointer) : ExportBlock(gpu->allocator(), pointer);
}

void TorchAllocator::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex accessed) {
  native().enablePeerAccess(device, accessed);
  gpus_.AllowPeer(device, accessed);
}

cudaError_t TorchAllocator::memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                                        cudaStream_t stream, bool peer_access) {
  const bool between_devices = to_device != from_device;
  if (between_devices && !peer_access && (gpus_.OwnerOf(to) != nullptr || gpus_.OwnerOf(from) != nullptr)) {
    // Mapped memory of a device without peer access takes part in no ordinary copy.
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
  }
  return native().memcpyAsync(to, to_device, from, from_device, size, stream, peer_access);
}

// --- History

caching::SnapshotInfo TorchAllocator::Snapshot(MempoolId_t pool, bool include_traces) {
  const History::NoteReader reader(history_);
  caching::SnapshotInfo snapshot = TakeSnapshot(native(), pool, include_traces);
  // NCCL's process group asks for what it is to register of a pool. It goes on to use physical memory that has moved.
  const bool is_registered = pool != kDefaultPool && is_listened_to_.load(std::memory_order_relaxed);
  const bool mapped_too = !is_registered && (!remaps_.load() || !NcclRegistersEverySegment());
  const OnlyPool only = pool == kDefaultPool ? std::nullopt : OnlyPool(ToPoolId(pool));
  gpus_.ForEach([&](GpuMemory& gpu) {
    if (is_registered) KeepPool(gpu.ordinal(), pool, /*captured=*/false);
    gpu.allocator().sleep().EnterGivenBack();
    AddSegments(snapshot.segments, gpu.ordinal(), gpu.allocator().inspect().Snapshot(only), mapped_too);
  });
  expandable_segments_.ShowIn(snapshot.config_metadata);
  if (include_traces && history_.enabled()) history_.MergeInto(snapshot.device_traces);
  gpus_.NoteSnapshot(pool);
  return snapshot;
}

void TorchAllocator::RecordHistory(bool enabled, CreateContextFn create_context, size_t max_entries, RecordContext when,
                                   bool clear, const std::vector<std::string>& skip_actions) {
  if (!history_only_ours_.load()) {
    NativeForwarder::RecordHistory(enabled, create_context, max_entries, when, clear, skip_actions);
  }
  history_.Configure(enabled, create_context, max_entries, when, clear, skip_actions);
  if (history_.has_listened()) gpus_.AttachHistory();
}

ContextPointer TorchAllocator::ContextForPointer(const void* pointer) {
  GpuMemory* const gpu = gpus_.OwnerOf(pointer);
  if (gpu == nullptr) return NativeForwarder::ContextForPointer(pointer);
  const History::NoteReader reader(history_);
  const std::optional<BlockView> block = gpu->allocator().inspect().FindBlock(Address(pointer));
  if (!block.has_value() || block->annotation == nullptr) return nullptr;
  return static_cast<const BlockNote*>(block->annotation)->context;
}

void TorchAllocator::AnnotateMemory(const void* pointer, const std::string& metadata) {
  GpuMemory* const gpu = gpus_.OwnerOf(pointer);
  if (gpu == nullptr) return NativeForwarder::AnnotateMemory(pointer, metadata);
#if FRUGAL_TORCH_MINOR >= 14
  if (!history_.listening()) return;
  const std::optional<BlockView> block = gpu->allocator().inspect().FindBlock(Address(pointer));
  if (!block.has_value()) return;
  const History::Operation operation(history_, native(), RecordContext::ALLOC);
  history_.RecordAnnotation(gpu->ordinal(), block->address.value(), static_cast<size_t>(block->size.count()), metadata);
#endif
}

void TorchAllocator::pushCompileContext(std::string& context) {
  native().pushCompileContext(context);
  History::PushCompileContext(context);
}

void TorchAllocator::popCompileContext() {
  native().popCompileContext();
  History::PopCompileContext();
}

void TorchAllocator::attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) {
  out_of_memory_observers_.Attach(native(), std::move(observer));
}

void TorchAllocator::attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) {
  native().attachAllocatorTraceTracker(tracker);
  is_listened_to_.store(true, std::memory_order_relaxed);
  history_.AttachTracker(std::move(tracker));
  gpus_.AttachHistory();
}

}  // namespace frugal
