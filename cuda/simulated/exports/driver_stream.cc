// The driver's streams and events.

#include <cuda.h>

#include "cuda/simulated/exports/driver.h"
#include "cuda/simulated/streams.h"

using frugal::sim::Capture;
using frugal::sim::Error;
using frugal::sim::Event;
using frugal::sim::InDriver;
using frugal::sim::Machine;
using frugal::sim::OnCurrentGpu;
using frugal::sim::OnStream;
using frugal::sim::Stream;
using frugal::sim::Streams;
using frugal::sim::TheMachine;
using frugal::sim::ToResult;

namespace {

Event* ToEvent(CUevent event) { return reinterpret_cast<Event*>(event); }

}  // namespace

// --- Streams.

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return OnCurrentGpu([&](Machine& machine, int gpu) {
    const auto kind = flags & CU_STREAM_NON_BLOCKING ? Stream::Kind::kNonBlocking : Stream::Kind::kBlocking;
    *stream = reinterpret_cast<CUstream>(machine.streams().Create(gpu, kind, priority));
    return Error::kSuccess;
  });
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

CUresult cuStreamDestroy(CUstream stream) {
  return ToResult(TheMachine().streams().Destroy(reinterpret_cast<Stream*>(stream)));
}

CUresult cuStreamQuery(CUstream stream) {
  return OnStream(stream, [](Machine& machine, Stream& found) { return machine.streams().Query(found); });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return OnStream(stream, [](Machine& machine, Stream& found) { return machine.streams().Synchronize(found); });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return OnStream(stream,
                  [&](Machine& machine, Stream& found) { return machine.streams().StreamWait(found, ToEvent(event)); });
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    *context = frugal::sim::ContextOf(found.gpu);
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
    Streams::CaptureInfo info;
    if (const Error error = machine.streams().QueryCapture(found, &info); error != Error::kSuccess) return error;
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
  auto& current = frugal::sim::ThisThread().capture_mode;
  const auto previous = static_cast<CUstreamCaptureMode>(current);
  current = static_cast<frugal::sim::CaptureMode>(*mode);
  *mode = previous;
  return CUDA_SUCCESS;
}

// Flags that other devices poll, as NVSHMEM's: nobody polls them here.
CUresult cuStreamWriteValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned) { return CUDA_SUCCESS; }

// --- Events.

CUresult cuEventCreate(CUevent* event, unsigned) {
  const InDriver scope;
  Event* created = nullptr;
  const Error error = TheMachine().streams().CreateEvent(&created);
  if (error == Error::kSuccess) *event = reinterpret_cast<CUevent>(created);
  return ToResult(error);
}

CUresult cuEventDestroy(CUevent event) { return ToResult(TheMachine().streams().DestroyEvent(ToEvent(event))); }

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return OnStream(stream,
                  [&](Machine& machine, Stream& found) { return machine.streams().Record(ToEvent(event), found); });
}

CUresult cuEventQuery(CUevent event) {
  const InDriver scope;
  return ToResult(TheMachine().streams().QueryEvent(ToEvent(event)));
}

CUresult cuEventSynchronize(CUevent event) {
  const InDriver scope;
  return ToResult(TheMachine().streams().SynchronizeEvent(ToEvent(event)));
}
