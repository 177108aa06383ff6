#include "bindings/torch/torch_allocator.h"

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/env.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "bindings/settings/pytorch_settings.h"
#include "bindings/threads/forked_child.h"
#include "bindings/torch/host_memory_text.h"
#include "bindings/torch/inconsistency_report.h"
#include "bindings/torch/ipc.h"
#include "bindings/torch/site_sampler.h"
#include "bindings/torch/snapshot.h"

namespace frugal {
namespace {

// Above this PyTorch's own allocator does not even try.
constexpr size_t kExbibyte = size_t{1} << 60;

c10::DeviceIndex CurrentDevice() {
  c10::DeviceIndex device = 0;
  const cudaError_t error = c10::cuda::GetDevice(&device);
  // The macro asks for assertions of kernels too, even when all is well.
  if (C10_UNLIKELY(error != cudaSuccess)) C10_CUDA_CHECK(error);
  return device;
}

// The handles that name another stream in each context: null and cudaStreamLegacy, which are one, and
// cudaStreamPerThread.
bool IsDefaultStream(cudaStream_t handle) {
  return reinterpret_cast<uintptr_t>(handle) <= reinterpret_cast<uintptr_t>(cudaStreamPerThread);
}

// A default stream of `context`; see DriverDevice::CurrentContext. A context that is not a device's primary one, as a
// green context is, may end.
Stream DefaultStream(cudaStream_t handle, uint64_t context) {
  const bool per_thread = handle == cudaStreamPerThread;
  return Stream{per_thread ? reinterpret_cast<uint64_t>(handle) : 0, context, /*may_end=*/context != 0};
}

// The program made the stream, and may destroy it: it is not of PyTorch's pool. For these c10's id is the handle; ids
// of the pool are small and odd. c10's headers do not say so; in the libc10_cuda of each torch in
// tools/torch_versions.txt it was seen to be so (getStreamFromExternal, getStreamFromPool).
bool IsExternal(c10::cuda::CUDAStream stream, cudaStream_t handle) {
  return static_cast<uint64_t>(stream.id()) == reinterpret_cast<uint64_t>(handle);
}

[[noreturn]] C10_NOINLINE void RefuseSize() {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate more than 1EB memory.");
}

// allocate() of native's, which keeps to what a limit leaves it.
template <typename F>
std::invoke_result_t<F> WithinLimit(GpuMemory& gpu, F&& allocate) {
  gpu.LeaveNativeTheRest();
  auto memory = allocate();
  gpu.native_share().NoteReserved();
  return memory;
}

// What native takes there is limited from the first byte on; elsewhere it needs nothing of us.
bool HasHostsMemory(c10::DeviceIndex device) {
  int integrated = 0;
  return cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, device) == cudaSuccess && integrated != 0;
}

// For a deleter, where an exception would end the process.
C10_NOINLINE void WarnNotFreed(void* pointer, const absl::Status& status) {
  TORCH_WARN("frugal_alloc could not free ", pointer, ": ", status.message());
}

// NCCL's process group takes a snapshot for each communicator then, and registers what it finds in it. It would go on
// to use the physical memory that was at an address after that memory has moved, so it must not find ours unless that
// stays where it is. (Refusing the process group's tracker instead would end the program: its constructor has started
// threads by then.)
bool NcclRegistersEverySegment() {
  constexpr char kVariable[] = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK";
  if (c10::utils::check_env(kVariable) != true) return false;
  TORCH_WARN_ONCE("frugal_alloc: memory snapshots leave out its memory while ", kVariable,
                  " is set, because NCCL cannot register memory that is remapped; with the setting remap:off it can");
  return true;
}

void CheckSize(size_t size) {
  if (C10_UNLIKELY(size >= kExbibyte)) RefuseSize();
}

// Whoever listens to the GPU's traces (torch.cuda._sanitizer) is told of memory before it is used, and before it can be
// handed on.
using GpuTraceFunction = void (c10::impl::PyInterpreterVTable::*)(c10::DeviceType, uintptr_t) const;
C10_NOINLINE void TellTrace(GpuTraceFunction function, const void* block) {
  const c10::impl::PyInterpreter* const interpreter = c10::impl::GPUTrace::get_trace();
  if (interpreter == nullptr) return;
  (**interpreter.*function)(c10::DeviceType::CUDA, reinterpret_cast<uintptr_t>(block));
}

// To the next of the steps that roundup_power2_divisions cuts each interval between powers of two into.
C10_NOINLINE size_t RoundUpToDivision(size_t size, size_t divisions) {
  const size_t step = std::bit_floor(size) / divisions;
  return (size + step - 1) / step * step;
}

// The size of the block for a request: what it asks for, unless PyTorch was told roundup_power2_divisions, which may
// change at any time. Costs what it costs native, three percent of an allocation.
C10_ALWAYS_INLINE size_t RoundUpAsTold(size_t size) {
  const size_t divisions = RoundUpDivisions(size);
  return C10_LIKELY(divisions <= 1) || size <= divisions * static_cast<size_t>(kGrain.count())
             ? size
             : RoundUpToDivision(size, divisions);
}

}  // namespace

std::atomic<TorchAllocator*> TorchAllocator::instance_{nullptr};

TorchAllocator::TorchAllocator(caching::CUDAAllocator& native)
    : NativeForwarder(native), gpus_(native, routing_, history_) {}

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
  history_.BecomeForkedChild();
  out_of_memory_observers_.BecomeForkedChild();
  SiteTable::Instance().BecomeForkedChild();
  gpus_.BecomeForkedChild();
}

// --- Allocation. What is on the way of every tensor is put into its callers: calls would be a tenth of it.

C10_ALWAYS_INLINE void* TorchAllocator::Allocated(GpuMemory& gpu, const Allocation& allocation) {
  void* const block = allocation.address.pointer();
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) ReportUsage(gpu, block, allocation.size.count());
  if (C10_UNLIKELY(c10::impl::GPUTrace::haveState)) {
    TellTrace(&c10::impl::PyInterpreterVTable::trace_gpu_memory_allocation, block);
  }
  return block;
}

C10_ALWAYS_INLINE void* TorchAllocator::AllocateBlock(c10::DeviceIndex device, size_t size, cudaStream_t handle,
                                                      bool is_external) {
  GpuMemory& gpu = gpus_.Get(device);
  Stream stream{reinterpret_cast<uint64_t>(handle), 0, is_external};
  if (IsDefaultStream(handle)) {
    const uint64_t context = gpu.device().CurrentContext();
    stream = C10_LIKELY(context == 0 && handle == nullptr) ? Stream{} : DefaultStream(handle, context);
  }
  const Sample sample = SiteSampler::Next(size);
  if (C10_UNLIKELY(history_.listening())) return AllocateRecorded(gpu, size, stream, sample);
  const absl::StatusOr<Allocation> allocation = gpu.allocator().Allocate(
      Bytes(static_cast<int64_t>(size)), stream, nullptr, Bytes(static_cast<int64_t>(RoundUpAsTold(size))), sample);
  if (C10_UNLIKELY(!allocation.ok())) return AllocateElsewhere(gpu, size, handle, allocation.status());
  return Allocated(gpu, *allocation);
}

c10::DataPtr TorchAllocator::allocate(size_t size) {
  CheckSize(size);
  const c10::DeviceIndex device = CurrentDevice();
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device);
  const cudaStream_t handle = stream.stream();
  if (GoesToNative(device, handle)) return AllocateNative(size);
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
  if (GoesToNative(device, stream)) {
    return AllocateFromNative(device, size, [&] { return native().raw_alloc_with_stream(size, stream); });
  }
  // Whose the stream is can be told only of the current one; of the rest nobody knows how long they last.
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device);
  return AllocateBlock(device, size, stream, current.stream() != stream || IsExternal(current, stream));
}

void* TorchAllocator::AllocateRecorded(GpuMemory& gpu, size_t size, Stream stream, Sample sample) {
  const History::Operation operation(history_, native(), RecordContext::STATE);
  const Bytes requested(static_cast<int64_t>(size));
  std::unique_ptr<BlockNote> note;
  if (operation.context()) note = std::make_unique<BlockNote>(BlockNote{operation.context()});
  const absl::StatusOr<Allocation> allocation =
      gpu.allocator().Allocate(requested, stream, note.get(), Bytes(static_cast<int64_t>(RoundUpAsTold(size))), sample);
  if (!allocation.ok()) {
    return AllocateElsewhere(gpu, size, reinterpret_cast<cudaStream_t>(stream.id), allocation.status());
  }
  // The block's now, until DropAnnotation.
  static_cast<void>(note.release());
  return Allocated(gpu, *allocation);
}

void TorchAllocator::ReportUsage(GpuMemory& gpu, void* pointer, int64_t change) {
  const DeviceStats stats = gpu.GetStats();
  c10::reportMemoryUsageToProfiler(pointer, change, static_cast<size_t>(stats.allocated_bytes[0].current),
                                   static_cast<size_t>(stats.reserved_bytes[0].current),
                                   c10::Device(c10::DeviceType::CUDA, gpu.ordinal()));
}

void* TorchAllocator::AllocateElsewhere(GpuMemory& gpu, size_t size, cudaStream_t stream, const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return AllocateFromPools(gpu, size, stream);
  if (gpu.NoteRefusal(status)) TellOfRefusal(gpu, status);
  return AllocateFromNative(gpu.ordinal(), size, [&] { return native().raw_alloc_with_stream(size, stream); });
}

void* TorchAllocator::AllocateFromPools(GpuMemory& gpu, size_t size, cudaStream_t stream) {
  if (routing_.HasPoolForOutOfMemory(gpu.ordinal())) {
    try {
      const OutOfMemoryObservers::Silence silence;
      void* const block = WithinLimit(gpu, [&] { return native().raw_alloc_with_stream(size, stream); });
      gpu.ForgetOutOfMemory();
      return block;
    } catch (const c10::OutOfMemoryError&) {
      gpu.ForgetOutOfMemory();
    }
  }
  ThrowOutOfMemory(gpu, size, stream, history_, out_of_memory_observers_);
}

void TorchAllocator::TellOfRefusal(GpuMemory& gpu, const absl::Status& status) {
  gpu.BeginPhase();
  const int ordinal = gpu.ordinal();
  if (!absl::IsDataLoss(status)) {
    TORCH_WARN("frugal_alloc: the driver fails on GPU ", ordinal, " (", status.message(),
               "); what cannot be had otherwise comes from PyTorch's native allocator");
    return;
  }
  Settings settings;
  {
    absl::MutexLock lock(&settings_mutex_);
    settings = settings_;
  }
  const std::string written =
      WriteReport({ordinal, status, gpu.allocator().GetStatistics(), ToText(settings), 200 + FRUGAL_TORCH_MINOR},
                  settings.report_dir);
  TORCH_WARN("frugal_alloc found that its books of GPU ", ordinal, " do not add up (", status.message(),
             "). The run goes on with PyTorch's native allocator for new memory on this GPU. ", written);
}

template <typename F>
std::invoke_result_t<F> TorchAllocator::AllocateFromNative(c10::DeviceIndex device, size_t size, F&& allocate) {
  GpuMemory* gpu = gpus_.Find(device);
  if (gpu == nullptr && HasHostsMemory(device)) gpu = &gpus_.Get(device);
  if (gpu == nullptr) return allocate();
  for (const Bytes enough : {NativeSegmentSize(Bytes(static_cast<int64_t>(size))), kUnlimited}) {
    try {
      const OutOfMemoryObservers::Silence silence;
      return WithinLimit(*gpu, allocate);
    } catch (const c10::OutOfMemoryError&) {
      gpu->ForgetOutOfMemory();
    }
    // Native cannot ask us for what we hold but do not use.
    gpu->Trim(enough);
  }
  try {
    return WithinLimit(*gpu, allocate);
  } catch (c10::OutOfMemoryError& error) {
    error.add_context(HeldByUs(gpu->allocator().GetStatistics()));
    if (const std::string host = DescribeHostMemory(*gpu); !host.empty()) error.add_context(host);
    throw;
  }
}

c10::DataPtr TorchAllocator::AllocateNative(size_t size) {
  return Adopt(AllocateFromNative(CurrentDevice(), size, [&] { return native().allocate(size); }));
}

c10::DataPtr TorchAllocator::Adopt(c10::DataPtr data) {
  // PyTorch compares deleters to tell the allocator's memory from other memory; a DataPtr with another deleter
  // (uncached memory) is not the cache's, ours or native's.
  const c10::DeleterFnPtr natives = CacheDeleter();
  static_cast<void>(data.get_deleter() == natives && data.compare_exchange_deleter(natives, &DeleteBlock));
  return data;
}

// --- Freeing

C10_ALWAYS_INLINE absl::Status TorchAllocator::Freed(GpuMemory& gpu, void* pointer, const absl::StatusOr<Bytes>& size) {
  if (C10_UNLIKELY(!size.ok())) return size.status();
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) ReportUsage(gpu, pointer, -size->count());
  return absl::OkStatus();
}

C10_ALWAYS_INLINE absl::Status TorchAllocator::FreeBlock(GpuMemory& gpu, void* pointer) {
  if (C10_UNLIKELY(c10::impl::GPUTrace::haveState)) {
    TellTrace(&c10::impl::PyInterpreterVTable::trace_gpu_memory_deallocation, pointer);
  }
  if (C10_UNLIKELY(history_.listening())) return FreeRecorded(gpu, pointer);
  return Freed(gpu, pointer, gpu.allocator().Free(Address(pointer)));
}

absl::Status TorchAllocator::FreeRecorded(GpuMemory& gpu, void* pointer) {
  const History::Operation operation(history_, native(), RecordContext::ALL);
  return Freed(gpu, pointer, gpu.allocator().Free(Address(pointer)));
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
  absl::MutexLock lock(&settings_mutex_);
  settings_ = settings;
}

void TorchAllocator::NoteNativeFreed() {
  // While all new memory is native's, ours only falls.
  if (!routing_.passthrough()) routing_.SetNewPhase(true);
}

bool TorchAllocator::IsException(c10::DeviceIndex device, cudaStream_t stream) {
  if (routing_.SetNewPhase(false)) gpus_.ForEach([](GpuMemory& gpu) { gpu.BeginPhase(); });
  return routing_.GoesToNative(device, stream);
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
  if (pool == kDefaultPool) {
    const History::Operation operation(history_, native(), RecordContext::ALL);
    Trim();
  }
  native().emptyCache(pool);
  gpus_.ForEach([](GpuMemory& gpu) { gpu.native_share().NoteReserved(); });
}

Stream TorchAllocator::ToStream(const GpuMemory& gpu, c10::cuda::CUDAStream stream) {
  const cudaStream_t handle = stream.stream();
  const bool of_other_gpu = stream.device_index() != gpu.ordinal();
  // Its context exists, since its stream does.
  const DriverDevice& device = of_other_gpu ? gpus_.Get(stream.device_index()).device() : gpu.device();
  const uint64_t usual_context = of_other_gpu ? device.primary_context() : 0;
  if (!IsDefaultStream(handle)) {
    return Stream{reinterpret_cast<uint64_t>(handle), usual_context, IsExternal(stream, handle)};
  }
  // Those of the thread's own context, where that is of the same device.
  const uint64_t context = CurrentDevice() == stream.device_index() ? device.CurrentContext() : 0;
  if (context != 0) return DefaultStream(handle, context);
  return Stream{DefaultStream(handle, 0).id, usual_context};
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
  const absl::Status status = gpu->allocator().RecordStream(Address(data.get_context()), ToStream(*gpu, stream));
  TORCH_CHECK(status.ok(), "frugal_alloc could not note that ", data.get(), " is used by a stream: ", status.message());
}

// --- What PyTorch asks about memory

void TorchAllocator::init(int device_count) {
  if (!native().initialized()) native().init(device_count);
}

DeviceStats TorchAllocator::getDeviceStats(c10::DeviceIndex device) {
  GpuMemory* const gpu = gpus_.Find(device);
  return gpu == nullptr ? native().getDeviceStats(device) : gpu->GetStats();
}

void TorchAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) return gpu->ResetAccumulatedStats();
  native().resetAccumulatedStats(device);
}

void TorchAllocator::resetPeakStats(c10::DeviceIndex device) {
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) return gpu->ResetPeakStats();
  native().resetPeakStats(device);
}

double TorchAllocator::getMemoryFraction(c10::DeviceIndex device) {
  GpuMemory* const gpu = gpus_.Find(device);
  // What native was told is what we leave it.
  if (gpu != nullptr && gpu->native_share().has_limit()) return gpu->MemoryFraction();
  return native().getMemoryFraction(device);
}

void TorchAllocator::setMemoryFraction(double fraction, c10::DeviceIndex device) {
  GpuMemory* const gpu = gpus_.Find(device);
  if (gpu == nullptr) return native().setMemoryFraction(fraction, device);
  const double before = native().getMemoryFraction(device);
  native().setMemoryFraction(fraction, device);
  const absl::Status status = gpu->SetMemoryFraction(fraction);
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

// --- Pools, processes, devices

void TorchAllocator::beginAllocateToPool(c10::DeviceIndex device, MempoolId_t pool,
                                         std::function<bool(cudaStream_t)> filter) {
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) gpu->BeginPhase();
  native().beginAllocateToPool(device, pool, filter);
  routing_.Open(device, pool, std::move(filter));
  gpus_.AwaitIdleRelease();
}

void TorchAllocator::endAllocateToPool(c10::DeviceIndex device, MempoolId_t pool) {
  routing_.Close(device, pool);
  native().endAllocateToPool(device, pool);
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) gpu->BeginPhase();
}

void TorchAllocator::SetUseOnOutOfMemory(c10::DeviceIndex device, MempoolId_t pool, bool value) {
  NativeForwarder::SetUseOnOutOfMemory(device, pool, value);
  routing_.SetUseOnOutOfMemory(device, pool, value);
}

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
  if (pool == kDefaultPool && (!remaps_.load() || !NcclRegistersEverySegment())) {
    gpus_.ForEach(
        [&](GpuMemory& gpu) { AddSegments(snapshot.segments, gpu.ordinal(), gpu.allocator().inspect().Snapshot()); });
  }
  if (include_traces && history_.enabled()) history_.MergeInto(snapshot.device_traces);
  if (history_.enabled()) {
    gpus_.ForEach([&](GpuMemory& gpu) {
      const int64_t active = pool == kDefaultPool ? gpu.GetOwnStats().active_bytes[0].current : 0;
      history_.NoteSnapshot(gpu.ordinal(), static_cast<size_t>(active));
    });
  }
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
  history_.AttachTracker(std::move(tracker));
  gpus_.AttachHistory();
}

}  // namespace frugal
