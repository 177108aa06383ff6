// Those outside of us who listen to each allocation and free: PyTorch's profiler, and whoever reads the GPU's traces
// (torch.cuda._sanitizer), who is told of memory before it is used, and before it can be handed on.

#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/impl/GPUTrace.h>

#include <cstdint>

#include "allocator/port/units.h"
#include "bindings/adapter/gpu_memory.h"

namespace frugal {

// To be called where somebody listens. `change`: in bytes, of what is allocated.
C10_NOINLINE inline void TellProfiler(GpuMemory& gpu, void* block, Bytes change) {
  const DeviceStats stats = gpu.statistics().Together();
  c10::reportMemoryUsageToProfiler(block, change.count(), static_cast<size_t>(stats.allocated_bytes[0].current),
                                   static_cast<size_t>(stats.reserved_bytes[0].current),
                                   c10::Device(c10::DeviceType::CUDA, gpu.ordinal()));
}
using GpuTraceFunction = void (c10::impl::PyInterpreterVTable::*)(c10::DeviceType, uintptr_t) const;
C10_NOINLINE inline void TellTrace(GpuTraceFunction function, const void* block) {
  const c10::impl::PyInterpreter* const interpreter = c10::impl::GPUTrace::get_trace();
  if (interpreter != nullptr) (**interpreter.*function)(c10::DeviceType::CUDA, reinterpret_cast<uintptr_t>(block));
}

C10_ALWAYS_INLINE void TellOfAllocation(GpuMemory& gpu, void* block, Bytes size) {
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) TellProfiler(gpu, block, size);
  if (C10_UNLIKELY(c10::impl::GPUTrace::haveState)) {
    TellTrace(&c10::impl::PyInterpreterVTable::trace_gpu_memory_allocation, block);
  }
}

C10_ALWAYS_INLINE void TellBeforeFree(const void* block) {
  if (C10_UNLIKELY(c10::impl::GPUTrace::haveState)) {
    TellTrace(&c10::impl::PyInterpreterVTable::trace_gpu_memory_deallocation, block);
  }
}

C10_ALWAYS_INLINE void TellAfterFree(GpuMemory& gpu, void* block, Bytes size) {
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) TellProfiler(gpu, block, Bytes(-size.count()));
}

}  // namespace frugal
