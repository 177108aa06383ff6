#include "bindings/adapter/private_pools.h"

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <tuple>

#include "absl/cleanup/cleanup.h"
#include "bindings/adapter/pool_streams.h"
#include "bindings/adapter/site_sampler.h"
#include "bindings/threads/forked_child.h"

namespace frugal {
namespace {

bool IsEmpty(const caching_types::SegmentInfo& segment) { return segment.active_size == 0; }

// Whether the GPU has nothing to do, as far as its streams can be named, and none of them is captured. Nobody waits: to
// do so could be for ever, where a collective waits for a process that waits for this one.
bool IsIdle(c10::DeviceIndex device, DeviceAllocator& allocator) {
  const cudaStream_t current = c10::cuda::getCurrentCUDAStream(device).stream();
  return !IsCaptured(current) && allocator.IsIdle() && !HasBusyStreamInPool(device);
}

}  // namespace

void PrivatePools::NoteHeld(c10::DeviceIndex device, MempoolId_t pool, bool has_own_allocator) {
  // An id of a pool that was released and is empty stands for another one from then on.
  if (native_.getPoolUseCount(device, pool) != 1) return;
  const SiteId site = SiteSampler::CurrentSite();
  absl::MutexLock lock(&mutex_);
  Pool& made = pools_[{device, pool}];
  if (made.is_released) released_.fetch_sub(1, std::memory_order_relaxed);
  made = {.site = site, .made = ++now_, .has_own_allocator = has_own_allocator};
}

void PrivatePools::NoteBegun(c10::DeviceIndex device, MempoolId_t pool, bool may_capture) {
  NoteHeld(device, pool);
  if (!may_capture) return;
  absl::MutexLock lock(&mutex_);
  pools_[{device, pool}].captured = ++now_;
}

void PrivatePools::NoteReleased(c10::DeviceIndex device, MempoolId_t pool) {
  if (native_.getPoolUseCount(device, pool) != 0) return;
  routing_.SetUseOnOutOfMemory(device, pool, false);
  absl::MutexLock lock(&mutex_);
  const auto found = pools_.find({device, pool});
  // What was made before we were installed is left to native.
  if (found == pools_.end() || found->second.is_released) return;
  found->second.is_released = true;
  released_.fetch_add(1, std::memory_order_relaxed);
  changes_.fetch_add(1, std::memory_order_relaxed);
}

bool PrivatePools::GiveBack(c10::DeviceIndex device, DeviceAllocator& allocator) {
  if (!HasReleased(device)) return false;
  Waiting& waiting = waiting_[static_cast<size_t>(device)];
  // To record its history native may need Python's lock, which somebody may hold who is about to open a pool.
  if (native_.isHistoryEnabled() || !waiting.at_work.TryLock()) return false;
  const absl::Cleanup done = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { waiting.at_work.Unlock(); };
  bool gave = false;
  try {
    const uint64_t changes = changes_.load();
    routing_.WithoutOpenPool(device, [&] {
      if (!IsIdle(device, allocator)) return;
      waiting.settled.store(changes);
      gave = GiveBackEmpty(device);
    });
  } catch (const std::exception& error) {
    TORCH_WARN("frugal_alloc: memory of a pool that nobody holds could not be given back: ", error.what());
  }
  return gave;
}

bool PrivatePools::GiveBackEmpty(c10::DeviceIndex device) {
  const c10::cuda::CUDAGuard guard(device);
  // Of the calls below, some are forbidden on other threads, too, while a stream of another GPU is captured.
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  bool has_waited = false;
  for (const Key& key : Returnable(device)) {
    const std::vector<caching_types::SegmentInfo> segments = SegmentsOf(key);
    // Blocks that wait for a stream are let go of by emptyCache.
    const auto may_go = [](const auto& segment) { return segment.allocated_size == 0; };
    if (std::any_of(segments.begin(), segments.end(), may_go) && !std::exchange(has_waited, true)) {
      // There may be streams that nobody has named. To free a segment waits for them, too, but with native's lock held;
      // to unmap one does not.
      C10_CUDA_CHECK(cudaDeviceSynchronize());
    }
    // Native forgets one without memory, too. Asked for it later, while another pool is open, it would assert.
    native_.emptyCache(key.second);
    ForgetIfGone(key);
  }
  if (has_waited && !routing_.passthrough()) routing_.SetNewPeriod(true);
  return has_waited;
}

void PrivatePools::Empty(MempoolId_t pool) {
  const auto empty = [&] { native_.emptyCache(pool); };
  const std::optional<c10::DeviceIndex> device = DeviceOf(pool);
  if (device.has_value() && !native_.isHistoryEnabled()) {
    routing_.WithoutOpenPool(*device, empty);
  } else if (!device.has_value() || !routing_.HasOpenPool(*device)) {
    empty();
  }
  NoteFreed();
}

std::optional<c10::DeviceIndex> PrivatePools::DeviceOf(MempoolId_t pool) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, of_key] : pools_) {
    if (key.second == pool && !of_key.has_own_allocator) return key.first;
  }
  return std::nullopt;
}

void PrivatePools::AddNatives(std::map<Key, PoolFigures>& found) const {
  for (const caching_types::SegmentInfo& segment : TakeSnapshot(native_, kDefaultPool, false).segments) {
    if (segment.owner_private_pool_id == kDefaultPool) continue;
    PoolFigures& figures = found[{segment.device, segment.owner_private_pool_id}];
    figures.native_reserved += Bytes(static_cast<int64_t>(segment.total_size));
    figures.native_allocated += Bytes(static_cast<int64_t>(segment.allocated_size));
    if (IsEmpty(segment)) figures.idle += Bytes(static_cast<int64_t>(segment.total_size));
  }
}

std::vector<PoolFigures> PrivatePools::Figures(const std::map<Key, PoolFigures>& found) const {
  std::vector<PoolFigures> all;
  for (const auto& [key, bytes] : found) {
    PoolFigures figures = bytes;
    std::tie(figures.gpu, figures.pool) = key;
    figures.reserved += figures.native_reserved;
    figures.allocated += figures.native_allocated;
    // PyTorch numbers what a graph makes for itself in the first place.
    figures.captured = key.second.first != 0;
    bool is_held = false;
    {
      absl::MutexLock lock(&mutex_);
      if (const auto pool = pools_.find(key); pool != pools_.end()) {
        figures.site = pool->second.site;
        figures.captured |= pool->second.captured > 0;
        is_held = !pool->second.is_released;
      }
    }
    // Native asserts of one that it does not know: nobody holds it, and native has nothing of it.
    if (is_held || figures.native_reserved > Bytes(0)) {
      figures.holders = native_.getPoolUseCount(key.first, key.second);
    }
    all.push_back(figures);
  }
  return all;
}

std::vector<caching_types::SegmentInfo> PrivatePools::SegmentsOf(const Key& key) const {
  std::vector<caching_types::SegmentInfo> segments = TakeSnapshot(native_, key.second, false).segments;
  std::erase_if(segments, [&](const auto& segment) { return segment.device != key.first; });
  return segments;
}

bool PrivatePools::IsUnread(const Key& key, const Pool& pool) const {
  return std::none_of(pools_.begin(), pools_.end(), [&](const auto& other) {
    return other.first.first == key.first && !other.second.is_released && other.second.captured > pool.made;
  });
}

std::vector<PrivatePools::Key> PrivatePools::Returnable(c10::DeviceIndex device) const {
  absl::MutexLock lock(&mutex_);
  std::vector<Key> keys;
  for (const auto& [key, pool] : pools_) {
    const bool is_released = key.first == device && pool.is_released && !pool.has_own_allocator;
    if (is_released && IsUnread(key, pool)) keys.push_back(key);
  }
  return keys;
}

void PrivatePools::ForgetIfGone(const Key& key) {
  if (!SegmentsOf(key).empty()) return;
  absl::MutexLock lock(&mutex_);
  const auto pool = pools_.find(key);
  // Somebody may have made another one of that id.
  if (pool == pools_.end() || !pool->second.is_released) return;
  pools_.erase(pool);
  released_.fetch_sub(1, std::memory_order_relaxed);
}

void PrivatePools::BecomeForkedChild() {
  for (Waiting& waiting : waiting_) Renew(waiting.at_work);
  Renew(mutex_);
  released_.store(0, std::memory_order_relaxed);
}

}  // namespace frugal
