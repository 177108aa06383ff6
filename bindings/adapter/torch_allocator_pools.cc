// What TorchAllocator does about private pools; see MemPools.

#include <map>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "bindings/adapter/listeners.h"
#include "bindings/adapter/native_memory.h"
#include "bindings/adapter/pool_streams.h"
#include "bindings/adapter/pytorch_streams.h"
#include "bindings/adapter/request_size.h"
#include "bindings/adapter/site_sampler.h"
#include "bindings/adapter/torch_allocator.h"

namespace frugal {
namespace {

// As AllocateBlock has it, which has it in itself: a part that both share would take four instructions more.
C10_ALWAYS_INLINE Stream StreamOf(GpuMemory& gpu, cudaStream_t handle, bool is_external) {
  const Stream stream{reinterpret_cast<uint64_t>(handle)};
  if (IsDefaultStream(handle)) {
    const uint64_t context = gpu.device().CurrentContext();
    return context == 0 && handle == nullptr ? Stream{} : DefaultStream(gpu.device(), handle, context);
  }
  return is_external ? gpu.device().WithLife(stream) : stream;
}

// What was in use of a pool.
struct PoolCheckpoint final : caching::AllocatorState {
  PoolCheckpoint(MempoolId_t id, std::vector<BlockView> blocks) : pool(id), live(std::move(blocks)) {}

  const MempoolId_t pool;
  const std::vector<BlockView> live;
};

std::vector<BlockView> LiveBlocksOf(GpuMemory& gpu, MempoolId_t pool) {
  std::vector<BlockView> live;
  for (const SegmentView& segment : gpu.allocator().inspect().Snapshot(ToPoolId(pool))) {
    for (const BlockView& block : segment.blocks) {
      if (block.state == BlockView::State::kAllocated) live.push_back(block);
    }
  }
  return live;
}

}  // namespace

// --- What serves a request

Routing::Destination TorchAllocator::DestinationOf(c10::DeviceIndex device, cudaStream_t stream) {
  if (routing_.SetNewPeriod(false)) gpus_.ForEach([](GpuMemory& gpu) { gpu.statistics().BeginPeriod(); });
  Routing::Destination to = routing_.DestinationOf(device, stream);
  to.tag = Tags::Current();
  // A MemPool within a capture.
  if (to.may_be_captured && to.kind == MemoryKind::kMovable && IsCaptured(stream)) {
    to.kind = KeepPool(device, to.pool, /*captured=*/true);
  }
  return to;
}

MemoryKind TorchAllocator::KeepPool(c10::DeviceIndex device, MempoolId_t pool, bool captured) {
  pools_.Keep({device, pool}, captured);
  const MemoryKind kind = pools_.KindOf({device, pool});
  routing_.SetKind(device, pool, kind);
  // It sleeps by the tag of the thread that captures.
  const absl::Status status = gpus_.Get(device).allocator().KeepPool(ToPoolId(pool), captured, Tags::Current());
  TORCH_CHECK(status.ok() || absl::IsDataLoss(status),
              "frugal_alloc could not keep a pool's memory in place: ", status.message());
  return kind;
}

void TorchAllocator::NeverSplit(c10::DeviceIndex device, MempoolId_t pool) {
  pools_.NeverSplit({device, pool});
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) {
    gpu->allocator().SetPoolTraits(ToPoolId(pool), pools_.TraitsOf({device, pool}));
  }
}

// --- Requests that are not ordinary

C10_ALWAYS_INLINE void* TorchAllocator::AllocateTagged(const Routing::Destination& to, c10::DeviceIndex device,
                                                       size_t size, cudaStream_t handle, bool is_external) {
  GpuMemory& gpu = gpus_.Get(device);
  void* const block = AllocateFrom({ToPoolId(to.pool), to.kind}, gpu, size, StreamOf(gpu, handle, is_external),
                                   SiteSampler::Next(size));
  // kNotFound where native had to help out, whose memory never sleeps.
  if (to.tag != Tags::kNone) static_cast<void>(gpu.allocator().sleep().SetTag(Address(block), to.tag));
  return block;
}

c10::DataPtr TorchAllocator::AllocateRouted(const Routing::Destination& to, c10::DeviceIndex device, size_t size,
                                            cudaStream_t handle, bool is_external) {
  if (to.is_native) return AllocateNative(size);
  void* const block = size == 0 ? nullptr : AllocateTagged(to, device, size, handle, is_external);
  return {block, block, &DeleteBlock, c10::Device(c10::DeviceType::CUDA, device)};
}

void* TorchAllocator::AllocateRawRouted(const Routing::Destination& to, c10::DeviceIndex device, size_t size,
                                        cudaStream_t stream) {
  if (!to.is_native) return AllocateTagged(to, device, size, stream, IsOfProgram(stream, device));
  return AllocateFromNative(gpus_, device, size, [&] { return native().raw_alloc_with_stream(size, stream); });
}

void* TorchAllocator::AllocateFromPools(GpuMemory& gpu, size_t size, cudaStream_t stream) {
  const std::vector<MempoolId_t> pools = routing_.PoolsForOutOfMemory(gpu.ordinal());
  const bool is_external = IsOfProgram(stream, gpu.ordinal());
  for (const MempoolId_t& pool : pools) {
    const absl::StatusOr<Allocation> found = gpu.allocator().AllocateFrom(
        {ToPoolId(pool), pools_.KindOf({gpu.ordinal(), pool})}, Bytes(static_cast<int64_t>(size)),
        StreamOf(gpu, stream, is_external), nullptr, RoundUpAsTold(size), SiteSampler::Next(size), /*only_free=*/true);
    if (!found.ok()) continue;
    gpu.statistics().ForgetOutOfMemory();
    TellOfAllocation(gpu, found->address.pointer(), found->size);
    return found->address.pointer();
  }
  ThrowOutOfMemory(gpu, size, stream, history_, out_of_memory_observers_);
}

// --- Who holds a pool, and what it is for

void TorchAllocator::beginAllocateToPool(c10::DeviceIndex device, MempoolId_t pool,
                                         std::function<bool(cudaStream_t)> filter) {
  // A graph's filter is for a capture that is yet to begin.
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device);
  const cudaStream_t current = stream.stream();
  const bool may_capture = !filter(current) || IsCaptured(current);
  const PrivatePools::Key key(device, pool);
  // Native keeps the register of pools, and serves them while we are disabled.
  native().beginAllocateToPool(device, pool, filter);
  absl::Cleanup end = [&] { native().endAllocateToPool(device, pool); };
  pools_.NoteBegun(key);
  if (!routing_.AllGoesToNative()) {
    const PoolTraits traits = pools_.TraitsOf(key);
    if (!traits.are_usual()) gpus_.Get(device).allocator().SetPoolTraits(ToPoolId(pool), traits);
    if (may_capture || pools_.KindOf(key) != MemoryKind::kMovable) KeepPool(device, pool, may_capture);
    if (may_capture) gpus_.Get(device).device().SetReuseInCapture(ReusesInCapture());
  }
  // One of the program's may be gone by the time that somebody asks about it.
  const bool lasts = may_capture && !IsExternal(stream, current);
  // What is kept from now on alone could move below a graph.
  const bool is_kept = !routing_.AllGoesToNative();
  routing_.Open(device, pool, is_kept ? pools_.KindOf(key) : MemoryKind::kSegment, std::move(filter), may_capture,
                lasts ? std::optional(current) : std::nullopt);
  std::move(end).Cancel();
  if (may_capture) gpus_.AwaitIdleRelease();
}

void TorchAllocator::endAllocateToPool(c10::DeviceIndex device, MempoolId_t pool) {
  native().endAllocateToPool(device, pool);
  routing_.Close(device, pool);
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) gpu->GiveBackReleased();
}

void TorchAllocator::releasePool(c10::DeviceIndex device, MempoolId_t pool) {
  native().releasePool(device, pool);
  const bool is_last = pools_.NoteReleased({device, pool});
  if (is_last) routing_.SetUseOnOutOfMemory(device, pool, false);
  GpuMemory* const gpu = gpus_.Find(device);
  if (gpu == nullptr) return;
  // Where our accounting is wrong, nothing goes back any more.
  if (is_last) static_cast<void>(gpu->allocator().ReleasePool(ToPoolId(pool)));
  gpu->GiveBackReleased();
}

std::vector<PoolFigures> TorchAllocator::DescribePools() {
  std::map<PrivatePools::Key, PoolFigures> found;
  gpus_.ForEach([&](GpuMemory& gpu) {
    for (const SegmentView& segment : gpu.allocator().inspect().Snapshot()) {
      if (segment.pool.is_default()) continue;
      PoolFigures& figures = found[{gpu.ordinal(), ToMempoolId(segment.pool)}];
      figures.reserved += segment.size - segment.emptied;
      Bytes free;
      for (const BlockView& block : segment.blocks) {
        if (block.state == BlockView::State::kAllocated) figures.allocated += block.size;
        if (block.state == BlockView::State::kFree) free += block.size;
      }
      figures.kept += segment.kept;
      // One of cudaMalloc goes back whole.
      if (segment.mapped || free == segment.size) figures.idle += free - segment.unusable;
    }
  });
  return pools_.Figures(found);
}

bool TorchAllocator::checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId_t pool,
                                              const std::unordered_set<void*>& expected) {
  std::unordered_set<void*> natives = expected;
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) {
    for (const BlockView& block : LiveBlocksOf(*gpu, pool)) {
      if (natives.erase(block.address.pointer()) == 0) return false;
    }
  }
  return native().checkPoolLiveAllocations(device, pool, natives);
}

std::shared_ptr<caching::AllocatorState> TorchAllocator::getCheckpointState(c10::DeviceIndex device, MempoolId_t pool) {
  if (routing_.AllGoesToNative()) return native().getCheckpointState(device, pool);
  // What is asked for from now on must be there again at the same addresses.
  KeepPool(device, pool, /*captured=*/false);
  return std::make_shared<PoolCheckpoint>(pool, LiveBlocksOf(gpus_.Get(device), pool));
}

caching::CheckpointDelta TorchAllocator::setCheckpointPoolState(c10::DeviceIndex device,
                                                                std::shared_ptr<caching::AllocatorState> state) {
  const auto* const checkpoint = dynamic_cast<const PoolCheckpoint*>(state.get());
  if (checkpoint == nullptr) return NativeForwarder::setCheckpointPoolState(device, std::move(state));
  GpuMemory& gpu = gpus_.Get(device);
  for (const Sleep::AsleepBlock& sleeper : sleeper_.AsleepOn(gpu)) {
    TORCH_CHECK(ToMempoolId(sleeper.pool) != checkpoint->pool,
                "the memory of these CUDA graphs sleeps: call frugal_alloc.wake() before they are used");
  }
  caching::CheckpointDelta delta;
  for (const BlockView& block : LiveBlocksOf(gpu, checkpoint->pool)) {
    raw_delete(block.address.pointer());
    delta.ptrs_freed.push_back(block.address.pointer());
  }
  for (const BlockView& block : checkpoint->live) {
    delta.dataptrs_allocd.push_back(AllocateAt(gpu, checkpoint->pool, std::nullopt, block.address, block.requested));
  }
  return delta;
}

#if FRUGAL_TORCH_MINOR >= 13
c10::DataPtr TorchAllocator::allocateWithAddress(size_t size, void* address) {
  GpuMemory* const gpu = gpus_.OwnerOf(address);
  if (gpu == nullptr) return NativeForwarder::allocateWithAddress(size, address);
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(gpu->ordinal());
  const MempoolId_t pool = DestinationOf(gpu->ordinal(), stream.stream()).pool;
  return AllocateAt(*gpu, pool, ToStream(gpus_, *gpu, stream), Address(address), Bytes(static_cast<int64_t>(size)));
}
#endif

c10::DataPtr TorchAllocator::AllocateAt(GpuMemory& gpu, MempoolId_t pool, std::optional<Stream> stream, Address address,
                                        Bytes size) {
  const History::Operation operation(history_, native(), RecordContext::STATE);
  auto* const note = operation.context() ? new BlockNote{operation.context()} : nullptr;
  const absl::StatusOr<Allocation> made = gpu.allocator().AllocateAt(
      ToPoolId(pool), stream, address, size, note, SiteSampler::Next(static_cast<size_t>(size.count())));
  if (!made.ok()) delete note;
  TORCH_CHECK(made.ok(), "frugal_alloc could not make a block at a given address: ", made.status().message());
  TellOfAllocation(gpu, address.pointer(), made->size);
  return {address.pointer(), address.pointer(), &DeleteBlock, c10::Device(c10::DeviceType::CUDA, gpu.ordinal())};
}

void TorchAllocator::SetUseOnOutOfMemory(c10::DeviceIndex device, MempoolId_t pool, bool value) {
  NativeForwarder::SetUseOnOutOfMemory(device, pool, value);
  routing_.SetUseOnOutOfMemory(device, pool, value);
}

}  // namespace frugal
