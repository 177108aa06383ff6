// In which torch 2.9 to 2.15 differ for several files here. native_forwarder.h has the allocator's own virtual
// functions; what concerns one file alone stands there, and FRUGAL_TORCH_MINOR finds it.

#pragma once

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#if defined(FRUGAL_TORCH_MINOR)
// Given by the build, for headers that do not say.
#elif __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
static_assert(TORCH_VERSION_MAJOR == 2, "frugal_alloc knows torch 2 only");
#define FRUGAL_TORCH_MINOR TORCH_VERSION_MINOR
#else
#error "These torch headers do not name their version: build with -DFRUGAL_TORCH_MINOR=<minor>"
#endif

static_assert(FRUGAL_TORCH_MINOR >= 9, "frugal_alloc needs torch 2.9 or newer");

namespace frugal {

namespace caching = c10::cuda::CUDACachingAllocator;
#if FRUGAL_TORCH_MINOR >= 11
namespace caching_types = c10::CachingDeviceAllocator;
#else
namespace caching_types = c10::cuda::CUDACachingAllocator;
#endif

using c10::MempoolId_t;
using caching_types::CreateContextFn;
using caching_types::RecordContext;
using caching_types::TraceEntry;
using DeviceStats = c10::CachingDeviceAllocator::DeviceStats;
using ContextPointer = std::shared_ptr<c10::GatheredContext>;

// PyTorch's setting roundup_power2_divisions for requests of this size; 0 or 1: it was not set.
inline size_t RoundUpDivisions(size_t size) {
#if FRUGAL_TORCH_MINOR >= 10
  return c10::CachingAllocator::AcceleratorAllocatorConfig::roundup_power2_divisions(size);
#else
  return caching::CUDAAllocatorConfig::roundup_power2_divisions(size);
#endif
}

// PyTorch's setting graph_capture_record_stream_reuse.
inline bool ReusesInCapture() { return caching::CUDAAllocatorConfig::graph_capture_record_stream_reuse(); }

// The pool of all that is in no private pool.
inline constexpr MempoolId_t kDefaultPool = {0, 0};

// What the calling thread adds to each trace entry.
struct TraceNotes {
  std::string compile_context;
  std::string user_metadata;
};

inline TraceEntry MakeTraceEntry(TraceEntry::Action action, c10::DeviceIndex device, size_t address, size_t size,
                                 cudaStream_t stream, MempoolId_t pool, ContextPointer context,
                                 const TraceNotes& notes) {
  return TraceEntry(action, device, address, size, stream, pool, c10::getApproximateTime(), std::move(context),
                    notes.compile_context
#if FRUGAL_TORCH_MINOR >= 10
                    ,
                    notes.user_metadata
#endif
  );
}

inline caching::SnapshotInfo TakeSnapshot(caching::CUDAAllocator& allocator, MempoolId_t pool, bool include_traces) {
#if FRUGAL_TORCH_MINOR >= 11
  return allocator.snapshot(pool, include_traces);
#else
  static_cast<void>(include_traces);
  return allocator.snapshot(pool);
#endif
}

inline std::string UserMetadata(caching::CUDAAllocator& allocator) {
#if FRUGAL_TORCH_MINOR >= 10
  return allocator.getUserMetadata();
#else
  static_cast<void>(allocator);
  return "";
#endif
}

}  // namespace frugal
