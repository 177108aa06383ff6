// Memory that PyTorch's native allocator serves, on a GPU of which we hold memory, too.

#pragma once

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/cleanup/cleanup.h"
#include "allocator/port/units.h"
#include "bindings/adapter/gpu_memory.h"
#include "bindings/adapter/gpu_set.h"
#include "bindings/adapter/native_share.h"
#include "bindings/adapter/out_of_memory.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

// null: native has the device to itself, and needs nothing of us.
GpuMemory* SharedWithNative(GpuSet& gpus, c10::DeviceIndex device);
// Adds to an error of native's, which knows nothing of us, what we hold.
void AddWhatWeHold(c10::OutOfMemoryError& error, GpuMemory& gpu);

// allocate() of native's, of `size` bytes; if the device is full of our idle memory, gives back as much as is wanted,
// then all, and tries again. Before the last time it asks other processes, too.
template <typename F>
std::invoke_result_t<F> AllocateFromNative(GpuSet& gpus, c10::DeviceIndex device, size_t size, F&& allocate) {
  GpuMemory* const gpu = SharedWithNative(gpus, device);
  if (gpu == nullptr) return allocate();
  const absl::Cleanup taken = [gpu] { gpu->native_share().NoteReserved(); };
  // First what a segment takes, so that others find room meanwhile.
  for (const Bytes enough : {NativeSegmentSize(Bytes(static_cast<int64_t>(size))), kUnlimited}) {
    gpu->limit().TellNative();
    try {
      const OutOfMemoryObservers::Silence silence;
      return allocate();
    } catch (const c10::OutOfMemoryError&) {
      gpu->statistics().ForgetOutOfMemory();
    }
    // Native cannot ask us for what we hold but do not use.
    gpu->Trim(enough);
  }
  gpu->AskNeighbours(NativeSegmentSize(Bytes(static_cast<int64_t>(size))));
  gpu->limit().TellNative();
  try {
    return allocate();
  } catch (c10::OutOfMemoryError& error) {
    AddWhatWeHold(error, *gpu);
    throw;
  }
}

}  // namespace frugal
