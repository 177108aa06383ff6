// Memory and events that processes share.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "simulated_gpu/exports/runtime.h"

namespace frugal::sim {

extern "C" {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(IpcHandle));

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  return OnCurrentGpu([&](Machine& machine, int) -> Error {
    SharedRange shared;
    RETURN_IF_ERROR(machine.segments().Export(Address(pointer), &shared));
    const IpcHandle bytes = shared.ToIpcHandle();
    std::memcpy(handle, bytes.data(), bytes.size());
    return Error::kSuccess;
  });
}

cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned) {
  return OnCurrentGpu([&](Machine& machine, int) -> Error {
    IpcHandle bytes;
    std::memcpy(bytes.data(), &handle, bytes.size());
    const std::optional<SharedRange> shared = SharedRange::FromIpcHandle(bytes);
    if (!shared) return Error::kMapFailed;
    Address start;
    const Error error = machine.segments().OpenImported(*shared, &start);
    *pointer = start.pointer();
    return error;
  });
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return OnCurrentGpu([&](Machine& machine, int) { return machine.segments().CloseImported(Address(pointer)); });
}

// An event's handle carries the time at which it passes: all processes of a host go by one wall clock. On another
// clock it is waited for, and has passed for the other process. An event that is recorded again after that is not seen
// by the other process.
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  const Error error = CheckEvent(event, __func__);
  if (error != Error::kSuccess) return ToResult(error);
  return OnCurrentGpu([&](Machine& machine, int) -> Error {
    Nanoseconds time{0};
    auto* shared = reinterpret_cast<Event*>(event);
    const bool by_the_wall = !machine.clock().is_manual();
    const Error error = by_the_wall ? machine.streams().events().PassesAt(shared, &time)
                                    : machine.streams().events().Synchronize(shared);
    *handle = {};
    const int64_t nanoseconds = time.count();
    std::memcpy(handle, &nanoseconds, sizeof(nanoseconds));
    return error;
  });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return OnCurrentGpu([&](Machine& machine, int gpu) {
    int64_t nanoseconds = 0;
    std::memcpy(&nanoseconds, &handle, sizeof(nanoseconds));
    *event = reinterpret_cast<cudaEvent_t>(machine.streams().events().CreateRecorded(Nanoseconds(nanoseconds), gpu));
    return Error::kSuccess;
  });
}

}  // extern "C"

}  // namespace frugal::sim
