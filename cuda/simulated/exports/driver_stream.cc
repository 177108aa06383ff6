// The driver's streams and events.

#include <cuda.h>

#include "cuda/simulated/exports/driver.h"
#include "cuda/simulated/streams.h"

namespace frugal::sim {

namespace {

CUresult CreateStream(CUstream* stream, unsigned flags, int priority, const char* function = __builtin_FUNCTION()) {
  return InCurrentContext(
      [&](Machine& machine, Context& context) -> Error {
        RETURN_IF_ERROR(machine.driver_memory().MakeStream(context.gpu()));
        const auto kind = flags & CU_STREAM_NON_BLOCKING ? Stream::Kind::kNonBlocking : Stream::Kind::kBlocking;
        *stream = reinterpret_cast<CUstream>(machine.streams().Create(context, kind, priority));
        return Error::kSuccess;
      },
      function);
}

// Calls `body` with the streams and the event. Any context will do, but the manual names CUDA_ERROR_INVALID_CONTEXT for
// each of the functions.
template <typename Body>
CUresult OnEvent(CUevent event, Body body, const char* function = __builtin_FUNCTION()) {
  if (ThisThread().context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const Error error = CheckEvent(event, function); error != Error::kSuccess) return ToResult(error);
  const InDriver scope;
  return ToResult(body(TheMachine().streams(), reinterpret_cast<Event*>(event)));
}

// Calls `body` with the streams, the stream and the event.
template <typename Body>
CUresult OnStreamAndEvent(CUstream stream, CUevent event, Body body, const char* function = __builtin_FUNCTION()) {
  if (const Error error = CheckEvent(event, function); error != Error::kSuccess) return ToResult(error);
  return OnStream(
      stream,
      [&](Machine& machine, Stream& found) { return body(machine.streams(), found, reinterpret_cast<Event*>(event)); },
      function);
}

}  // namespace

extern "C" {

// --- Streams.

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return CreateStream(stream, flags, priority);
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return CreateStream(stream, flags, /*priority=*/0); }

CUresult cuStreamDestroy(CUstream stream) { return ToResult(DestroyStream(stream, __func__)); }

CUresult cuStreamQuery(CUstream stream) {
  return OnStream(stream, [](Machine& machine, Stream& found) { return machine.streams().Query(found); });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return OnStream(stream, [](Machine& machine, Stream& found) { return machine.streams().Synchronize(found); });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return OnStreamAndEvent(stream, event, [](Streams& streams, Stream& waiting, Event* awaited) {
    return streams.events().StreamWait(waiting, awaited);
  });
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    *context = ToHandle(*found.context);
    return Error::kSuccess;
  });
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
    *green = found.context->is_green() ? ToGreenHandle(*found.context) : nullptr;
    return Error::kSuccess;
  });
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    *device = found.gpu;
    return Error::kSuccess;
  });
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    *id = found.id;
    return Error::kSuccess;
  });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return OnStream(stream, [&](Machine& machine, Stream& found) -> Error {
    Captures::Info info;
    RETURN_IF_ERROR(machine.streams().captures().Query(found, &info));
    switch (info.state) {
      case Capture::State::kActive:
        *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        break;
      case Capture::State::kInvalidated:
        *status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        break;
      case Capture::State::kEnded:
        *status = CU_STREAM_CAPTURE_STATUS_NONE;
        break;
    }
    return Error::kSuccess;
  });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  auto& current = ThisThread().capture_mode;
  const auto previous = static_cast<CUstreamCaptureMode>(current);
  current = static_cast<CaptureMode>(*mode);
  *mode = previous;
  return CUDA_SUCCESS;
}

// Flags that other devices poll, as NVSHMEM's: nobody polls them here.
CUresult cuStreamWriteValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned) { return CUDA_SUCCESS; }

// --- Events.

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

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return OnStreamAndEvent(stream, event, [](Streams& streams, Stream& marked, Event* recorded) {
    return streams.events().Record(recorded, marked);
  });
}

CUresult cuEventQuery(CUevent event) {
  return OnEvent(event, [](Streams& streams, Event* asked) { return streams.events().Query(asked); });
}

CUresult cuEventSynchronize(CUevent event) {
  return OnEvent(event, [](Streams& streams, Event* awaited) { return streams.events().Synchronize(awaited); });
}

}  // extern "C"

}  // namespace frugal::sim
