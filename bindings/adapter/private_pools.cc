#include "bindings/adapter/private_pools.h"

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "bindings/adapter/site_sampler.h"

namespace frugal {
namespace {

// Within a capture, too; see c10's own use.
using Relaxed = c10::cuda::CUDAStreamCaptureModeGuard;

class AllocatorSource final : public SegmentSource {
 public:
  explicit AllocatorSource(std::shared_ptr<caching::CUDAAllocator> allocator) : allocator_(std::move(allocator)) {}

  absl::StatusOr<Address> Malloc(Bytes size) override {
    const Relaxed relaxed(cudaStreamCaptureModeRelaxed);
    try {
      void* const segment = allocator_->raw_alloc(static_cast<size_t>(size.count()));
      if (segment == nullptr) return absl::ResourceExhaustedError("the pool's own allocator returned no memory");
      return Address(segment);
    } catch (const std::exception& error) {
      return absl::ResourceExhaustedError(absl::StrCat("the pool's own allocator failed: ", error.what()));
    }
  }

  absl::Status Free(Address segment) override {
    const Relaxed relaxed(cudaStreamCaptureModeRelaxed);
    try {
      allocator_->raw_delete(segment.pointer());
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat("the pool's own allocator failed: ", error.what()));
    }
  }

 private:
  const std::shared_ptr<caching::CUDAAllocator> allocator_;
};

class RuntimeSource final : public SegmentSource {
 public:
  absl::StatusOr<Address> Malloc(Bytes size) override {
    const Relaxed relaxed(cudaStreamCaptureModeRelaxed);
    void* segment = nullptr;
    const cudaError_t error = cudaMalloc(&segment, static_cast<size_t>(size.count()));
    if (error == cudaSuccess) return Address(segment);
    static_cast<void>(cudaGetLastError());
    return absl::ResourceExhaustedError(absl::StrCat("cudaMalloc failed: ", cudaGetErrorString(error)));
  }

  absl::Status Free(Address segment) override {
    const Relaxed relaxed(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaFree(segment.pointer());
    if (error == cudaSuccess) return absl::OkStatus();
    static_cast<void>(cudaGetLastError());
    return absl::InternalError(absl::StrCat("cudaFree failed: ", cudaGetErrorString(error)));
  }
};

}  // namespace

std::shared_ptr<SegmentSource> SourceOf(std::shared_ptr<caching::CUDAAllocator> allocator) {
  if (allocator == nullptr) return nullptr;
  return std::make_shared<AllocatorSource>(std::move(allocator));
}

std::shared_ptr<SegmentSource> PreloadedSource() {
  static const std::shared_ptr<SegmentSource> source = []() -> std::shared_ptr<SegmentSource> {
    const char* const preloaded = std::getenv("LD_PRELOAD");
    if (preloaded == nullptr || std::strstr(preloaded, "torch_memory_saver") == nullptr) return nullptr;
    return std::make_shared<RuntimeSource>();
  }();
  return source;
}

PrivatePools::Pool& PrivatePools::Hold(const Key& key) {
  Pool& pool = pools_[key];
  if (pool.holders == 0) {
    pool = {.site = SiteSampler::CurrentSite(), .traits = {.source = PreloadedSource()}};
    if (pool.traits.source == nullptr) pool.kind = KindOfKept();
  }
  ++pool.holders;
  return pool;
}

void PrivatePools::NoteMade(const Key& key, std::shared_ptr<SegmentSource> source) {
  absl::MutexLock lock(&mutex_);
  Pool& pool = Hold(key);
  if (pool.holders > 1) return;
  if (source != nullptr) {
    pool.traits.source = std::move(source);
    pool.kind = MemoryKind::kSegment;
  }
  // What torch.cuda.MemPool makes is numbered in the second place.
  if (pool.traits.source == nullptr && key.second.first == 0) pool.kind = MemoryKind::kMovable;
}

void PrivatePools::NoteBegun(const Key& key) {
  absl::MutexLock lock(&mutex_);
  Hold(key);
}

bool PrivatePools::NoteReleased(const Key& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = pools_.find(key);
  // It may be older than we are.
  return found != pools_.end() && found->second.holders > 0 && --found->second.holders == 0;
}

void PrivatePools::NeverSplit(const Key& key) {
  absl::MutexLock lock(&mutex_);
  pools_[key].traits.splits = false;
  pools_[key].kind = MemoryKind::kSegment;
}

void PrivatePools::Keep(const Key& key, bool captured) {
  absl::MutexLock lock(&mutex_);
  Pool& pool = pools_[key];
  // Who registers a pool without a capture (NCCL) goes on to use physical memory.
  if (pool.kind == MemoryKind::kMovable) pool.kind = captured ? KindOfKept() : MemoryKind::kSegment;
  pool.captured |= captured;
}

void PrivatePools::SetMapped(bool value) {
  absl::MutexLock lock(&mutex_);
  is_mapped_ = value;
}

MemoryKind PrivatePools::KindOf(const Key& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = pools_.find(key);
  return found == pools_.end() ? MemoryKind::kSegment : found->second.kind;
}

PoolTraits PrivatePools::TraitsOf(const Key& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = pools_.find(key);
  return found == pools_.end() ? PoolTraits() : found->second.traits;
}

std::vector<PoolFigures> PrivatePools::Figures(const std::map<Key, PoolFigures>& found) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(pools_, [&](const auto& pool) { return pool.second.holders == 0 && !found.contains(pool.first); });
  std::vector<PoolFigures> all;
  for (const auto& [key, bytes] : found) {
    PoolFigures figures = bytes;
    std::tie(figures.gpu, figures.pool) = key;
    // PyTorch numbers what a graph makes for itself in the first place.
    figures.captured = key.second.first != 0;
    if (const auto pool = pools_.find(key); pool != pools_.end()) {
      figures.site = pool->second.site;
      figures.captured |= pool->second.captured;
      figures.holders = pool->second.holders;
    }
    all.push_back(figures);
  }
  return all;
}

}  // namespace frugal
