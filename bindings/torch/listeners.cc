#include "bindings/torch/listeners.h"

namespace frugal {

void TellProfiler(GpuMemory& gpu, void* block, Bytes change) {
  const DeviceStats stats = gpu.statistics().Together();
  c10::reportMemoryUsageToProfiler(block, change.count(), static_cast<size_t>(stats.allocated_bytes[0].current),
                                   static_cast<size_t>(stats.reserved_bytes[0].current),
                                   c10::Device(c10::DeviceType::CUDA, gpu.ordinal()));
}

C10_NOINLINE void TellTrace(GpuTraceFunction function, const void* block) {
  const c10::impl::PyInterpreter* const interpreter = c10::impl::GPUTrace::get_trace();
  if (interpreter == nullptr) return;
  (**interpreter.*function)(c10::DeviceType::CUDA, reinterpret_cast<uintptr_t>(block));
}

}  // namespace frugal
