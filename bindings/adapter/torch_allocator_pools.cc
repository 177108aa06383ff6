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
Stream StreamOf(GpuMemory& gpu, cudaStream_t handle, bool is_external) {
  const Stream stream{reinterpret_cast<uint64_t>(handle)};
  if (IsDefaultStream(handle)) return DefaultStream(gpu.device(), handle, gpu.device().CurrentContext());
  return is_external ? gpu.device().WithLife(stream) : stream;
}

}  // namespace

// --- Whose a request is

Routing::Destination TorchAllocator::DestinationOf(c10::DeviceIndex device, cudaStream_t stream) {
  if (routing_.SetNewPeriod(false)) gpus_.ForEach([](GpuMemory& gpu) { gpu.statistics().BeginPeriod(); });
  Routing::Destination to = routing_.DestinationOf(device, stream);
  to.tag = Tags::Current();
  if (to.is_native || to.pool == kDefaultPool) return to;
  // Where memory cannot be mapped there is nothing to gain, and nothing stays in place.
  to.is_native =
      mem_pools_.OwnerOf(to.pool) == MemPools::Owner::kNative || !gpus_.Get(device).device().HasVirtualMemory();
  if (!to.is_native && IsCaptured(stream)) {
    GiveToNative(to.pool);
    to.is_native = true;
  }
  return to;
}

void TorchAllocator::GiveToNative(MempoolId_t pool) {
  if (!mem_pools_.GiveToNative(pool)) return;
  gpus_.ForEach([pool](GpuMemory& gpu) { static_cast<void>(gpu.allocator().KeepPool(ToPoolId(pool))); });
}

// --- Requests that are not ordinary

c10::DataPtr TorchAllocator::AllocateRouted(const Routing::Destination& to, c10::cuda::CUDAStream stream, size_t size) {
  const c10::DeviceIndex device = stream.device_index();
  if (to.is_native) return AllocateNative(size);
  void* const block =
      size == 0 ? nullptr : AllocateTagged(to, device, size, stream.stream(), IsExternal(stream, stream.stream()));
  return {block, block, &DeleteBlock, c10::Device(c10::DeviceType::CUDA, device)};
}

void* TorchAllocator::AllocateRawRouted(const Routing::Destination& to, c10::DeviceIndex device, size_t size,
                                        cudaStream_t stream) {
  if (!to.is_native) return AllocateTagged(to, device, size, stream, IsOfProgram(stream, device));
  return AllocateFromNative(gpus_, device, size, [&] { return native().raw_alloc_with_stream(size, stream); });
}

void* TorchAllocator::AllocateTagged(const Routing::Destination& to, c10::DeviceIndex device, size_t size,
                                     cudaStream_t handle, bool is_external) {
  GpuMemory& gpu = gpus_.Get(device);
  void* const block = AllocateFrom({ToPoolId(to.pool), to.kind}, gpu, size, StreamOf(gpu, handle, is_external),
                                   SiteSampler::Next(size));
  // kNotFound where native had to help out, whose memory never sleeps.
  if (to.tag != Tags::kNone) static_cast<void>(gpu.allocator().sleep().SetTag(Address(block), to.tag));
  return block;
}

void* TorchAllocator::AllocateFromPools(GpuMemory& gpu, size_t size, cudaStream_t stream) {
  const std::vector<MempoolId_t> pools = routing_.PoolsForOutOfMemory(gpu.ordinal());
  const bool is_external = IsOfProgram(stream, gpu.ordinal());
  for (const MempoolId_t& pool : pools) {
    if (mem_pools_.OwnerOf(pool) == MemPools::Owner::kNative) continue;
    const absl::StatusOr<Allocation> found = gpu.allocator().AllocateFrom(
        {ToPoolId(pool)}, Bytes(static_cast<int64_t>(size)), StreamOf(gpu, stream, is_external), nullptr,
        RoundUpAsTold(size), SiteSampler::Next(size), /*only_free=*/true);
    if (!found.ok()) continue;
    gpu.statistics().ForgetOutOfMemory();
    TellOfAllocation(gpu, found->address.pointer(), found->size);
    return found->address.pointer();
  }
  if (!pools.empty()) {
    try {
      const OutOfMemoryObservers::Silence silence;
      void* const block = WithinLimit(gpu, kUnlimited, [&] { return native().raw_alloc_with_stream(size, stream); });
      gpu.statistics().ForgetOutOfMemory();
      return block;
    } catch (const c10::OutOfMemoryError&) {
      gpu.statistics().ForgetOutOfMemory();
    }
  }
  ThrowOutOfMemory(gpu, size, stream, history_, out_of_memory_observers_);
}

// --- Who holds a pool, and what it is for

void TorchAllocator::beginAllocateToPool(c10::DeviceIndex device, MempoolId_t pool,
                                         std::function<bool(cudaStream_t)> filter) {
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) gpu->statistics().BeginPeriod();
  // A graph's filter is for a capture that is yet to begin.
  const cudaStream_t current = c10::cuda::getCurrentCUDAStream(device).stream();
  const bool may_capture = !filter(current) || IsCaptured(current);
  // It is open for us whenever it is for native, which must not be asked for memory back then.
  routing_.Open(device, pool, filter, may_capture);
  absl::Cleanup close = [&] { routing_.Close(device, pool); };
  native().beginAllocateToPool(device, pool, filter);
  std::move(close).Cancel();
  mem_pools_.Hold(pool);
  if (may_capture) GiveToNative(pool);
  pools_.NoteBegun(device, pool, may_capture);
  if (may_capture) gpus_.AwaitIdleRelease();
}

void TorchAllocator::endAllocateToPool(c10::DeviceIndex device, MempoolId_t pool) {
  native().endAllocateToPool(device, pool);
  routing_.Close(device, pool);
  GpuMemory* const gpu = gpus_.Find(device);
  if (gpu == nullptr) return;
  gpu->statistics().BeginPeriod();
  gpu->GiveBackReleased();
}

void TorchAllocator::releasePool(c10::DeviceIndex device, MempoolId_t pool) {
  native().releasePool(device, pool);
  pools_.NoteReleased(device, pool);
  if (mem_pools_.LetGo(pool)) {
    gpus_.ForEach([pool](GpuMemory& gpu) { static_cast<void>(gpu.allocator().ReleasePool(ToPoolId(pool))); });
  }
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) gpu->GiveBackReleased();
}

std::vector<PoolFigures> TorchAllocator::DescribePools() {
  std::map<PrivatePools::Key, PoolFigures> found;
  bool has_natives = false;
  gpus_.ForEach([&](GpuMemory& gpu) {
    has_natives |= gpu.native_share().Reserved() > Bytes(0);
    for (const SegmentView& segment : gpu.allocator().inspect().Snapshot()) {
      if (segment.pool.is_default()) continue;
      PoolFigures& figures = found[{gpu.ordinal(), ToMempoolId(segment.pool)}];
      figures.reserved += segment.size;
      Bytes free;
      for (const BlockView& block : segment.blocks) {
        if (block.state == BlockView::State::kAllocated) figures.allocated += block.size;
        if (block.state == BlockView::State::kFree) free += block.size;
      }
      figures.idle += free - segment.unusable;
    }
  });
  if (has_natives) {
    gpus_.NoteSnapshot(kDefaultPool);
    pools_.AddNatives(found);
  }
  return pools_.Figures(found);
}

bool TorchAllocator::checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId_t pool,
                                              const std::unordered_set<void*>& expected) {
  std::unordered_set<void*> natives = expected;
  if (GpuMemory* gpu = gpus_.Find(device); gpu != nullptr) {
    for (const SegmentView& segment : gpu->allocator().inspect().Snapshot(ToPoolId(pool))) {
      for (const BlockView& block : segment.blocks) {
        if (block.state == BlockView::State::kAllocated && natives.erase(block.address.pointer()) == 0) return false;
      }
    }
  }
  return native().checkPoolLiveAllocations(device, pool, natives);
}

std::shared_ptr<caching::AllocatorState> TorchAllocator::getCheckpointState(c10::DeviceIndex device, MempoolId_t pool) {
  // What is asked for from now on must be there again at the same addresses.
  GiveToNative(pool);
  return native().getCheckpointState(device, pool);
}

void TorchAllocator::SetUseOnOutOfMemory(c10::DeviceIndex device, MempoolId_t pool, bool value) {
  NativeForwarder::SetUseOnOutOfMemory(device, pool, value);
  routing_.SetUseOnOutOfMemory(device, pool, value);
}

}  // namespace frugal
