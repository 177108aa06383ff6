// The functions of the CUDA driver that we use, found at run time: nothing here links against libcuda, so a
// machine without a GPU loads our libraries just as well and gets an error that it can read.

#pragma once

#include <cuda.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace frugal {

// Name here, symbol in libcuda.so.1. The symbols are versioned by hand, because looked up by name they do not pass
// through the macros by which cuda.h picks the version that it declares.
#define FRUGAL_DRIVER_REQUIRED(X)                          \
  X(Init, cuInit)                                          \
  X(GetErrorName, cuGetErrorName)                          \
  X(GetErrorString, cuGetErrorString)                      \
  X(DeviceGet, cuDeviceGet)                                \
  X(DeviceGetAttribute, cuDeviceGetAttribute)              \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)      \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2) \
  X(CtxGetCurrent, cuCtxGetCurrent)                        \
  X(CtxPushCurrent, cuCtxPushCurrent_v2)                   \
  X(CtxPopCurrent, cuCtxPopCurrent_v2)                     \
  X(CtxSynchronize, cuCtxSynchronize)                      \
  X(MemGetInfo, cuMemGetInfo_v2)                           \
  X(MemAlloc, cuMemAlloc_v2)                               \
  X(MemFree, cuMemFree_v2)                                 \
  X(MemHostAlloc, cuMemHostAlloc)                          \
  X(MemFreeHost, cuMemFreeHost)                            \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2)                 \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                 \
  X(MemsetD8Async, cuMemsetD8Async)                        \
  X(StreamCreate, cuStreamCreate)                          \
  X(StreamDestroy, cuStreamDestroy_v2)                     \
  X(StreamSynchronize, cuStreamSynchronize)                \
  X(EventCreate, cuEventCreate)                            \
  X(EventDestroy, cuEventDestroy_v2)                       \
  X(EventRecord, cuEventRecord)                            \
  X(EventQuery, cuEventQuery)                              \
  X(EventSynchronize, cuEventSynchronize)                  \
  X(StreamWaitEvent, cuStreamWaitEvent)                    \
  X(StreamIsCapturing, cuStreamIsCapturing)                \
  X(PointerGetAttribute, cuPointerGetAttribute)            \
  X(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode)

// Drivers before 10.2 lack these.
#define FRUGAL_DRIVER_VIRTUAL_MEMORY(X)                         \
  X(MemGetAllocationGranularity, cuMemGetAllocationGranularity) \
  X(MemAddressReserve, cuMemAddressReserve)                     \
  X(MemAddressFree, cuMemAddressFree)                           \
  X(MemCreate, cuMemCreate)                                     \
  X(MemRelease, cuMemRelease)                                   \
  X(MemMap, cuMemMap)                                           \
  X(MemSetAccess, cuMemSetAccess)                               \
  X(MemUnmap, cuMemUnmap)

// What may be lacking: what is only told of, what came with CUDA 12.0, and with 12.3.
#define FRUGAL_DRIVER_OPTIONAL(X)                    \
  X(DeviceGetName, cuDeviceGetName)                  \
  X(DeviceGetUuid, cuDeviceGetUuid_v2)               \
  X(StreamGetId, cuStreamGetId)                      \
  X(StreamGetCaptureInfo, cuStreamGetCaptureInfo_v3) \
  X(GraphNodeGetDependencies, cuGraphNodeGetDependencies_v2)

struct DriverApi {
#define FRUGAL_DECLARE(name, symbol) decltype(&::symbol) name = nullptr;
  FRUGAL_DRIVER_REQUIRED(FRUGAL_DECLARE)
  FRUGAL_DRIVER_VIRTUAL_MEMORY(FRUGAL_DECLARE)
  FRUGAL_DRIVER_OPTIONAL(FRUGAL_DECLARE)
#undef FRUGAL_DECLARE

  // All functions of the second list are there.
  bool has_virtual_memory = false;

  // The driver of this process, loaded and initialised once; lives as long as the process.
  // kFailedPrecondition: there is no driver, or it is too old, or it finds no GPU. A later call tries again.
  static absl::StatusOr<const DriverApi*> Get();

  // OK, kResourceExhausted (the device is out of memory), kUnavailable (a stream capture forbids the call) or
  // kInternal; the message is `call` and the driver's own name and text for the error.
  absl::Status ToStatus(CUresult result, absl::string_view call) const;
};

}  // namespace frugal
