// The driver's streams and events.

#include <cuda.h>

#include "simulated_gpu/exports/driver.h"
#include "simulated_gpu/machine/graph.h"
#include "simulated_gpu/machine/streams.h"

namespace frugal::sim {

namespace {

// Calls `body` with the streams and the event. Any context will do, but the manual names CUDA_ERROR_INVALID_CONTEXT for
// each of the functions.
template <typename Body>
CUresult OnEvent(CUevent event, Body body, const char* function = __builtin_FUNCTION()) {
  if (ThisThread().context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const Error error = CheckEvent(event, function); error != Error::kSuccess) return ToResult(error);
  const InDriver scope;
  return ToResult(body(TheMachine().streams(), reinterpret_cast<Event*>(event)));
}

using CaptureStatus = CUstreamCaptureStatus;
using CaptureModeOfCall = CUstreamCaptureMode;

}  // namespace

#define API(name) cu##name
#include "simulated_gpu/exports/streams_of_both.inc"

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return CreateStream(stream, flags, /*priority=*/0); }

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return OnStream(stream, [&](Machine&, Stream& found) { return Give(context, ToHandle(*found.context)); });
}

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    *context = ContextOf(found.gpu);
    *green = found.context->is_green() ? ToGreenHandle(*found.context) : nullptr;
    return Error::kSuccess;
  });
}

CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx* green) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    return Give(green, found.context->is_green() ? ToGreenHandle(*found.context) : nullptr);
  });
}

// Flags that other devices poll, as NVSHMEM's: nobody polls them here.
CUresult cuStreamWriteValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned) { return CUDA_SUCCESS; }

CUresult cuEventCreate(CUevent* event, unsigned) {
  return OnCurrentGpu([&](Machine& machine, int gpu) {
    Event* created = nullptr;
    const Error error = machine.streams().events().Create(&created, gpu);
    if (error == Error::kSuccess) *event = reinterpret_cast<CUevent>(created);
    return error;
  });
}

CUresult cuEventDestroy(CUevent event) {
  if (ThisThread().context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return ToResult(DestroyEvent(event, __func__));
}

#ifdef cuEventElapsedTime
#undef cuEventElapsedTime
// By its name before CUDA 13.
CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  return cuEventElapsedTime_v2(milliseconds, from, to);
}
#endif

}  // extern "C"

}  // namespace frugal::sim
