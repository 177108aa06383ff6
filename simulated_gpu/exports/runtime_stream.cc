// The runtime's streams and events.

#include <cuda_runtime_api.h>

#include "simulated_gpu/exports/runtime.h"

namespace frugal::sim {

namespace {

// Calls `body` with the streams and the event, which none of the functions needs a context for.
template <typename Body>
cudaError_t OnEvent(cudaEvent_t event, Body body, const char* function = __builtin_FUNCTION()) {
  if (const Error error = CheckEvent(event, function); error != Error::kSuccess) return ToResult(error);
  return ToResult(body(TheMachine().streams(), reinterpret_cast<Event*>(event)));
}

using CaptureStatus = cudaStreamCaptureStatus;
using CaptureModeOfCall = cudaStreamCaptureMode;

}  // namespace

#define API(name) cuda##name
#include "simulated_gpu/exports/streams_of_both.inc"

extern "C" {

// --- Streams.

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return CreateStream(stream, flags, /*priority=*/0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return CreateStream(stream, /*flags=*/0, /*priority=*/0); }

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return OnStream(stream, [&](Machine&, Stream& found) { return Give(priority, found.priority); });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    return Give(flags, found.kind == Stream::Kind::kNonBlocking ? cudaStreamNonBlocking : cudaStreamDefault);
  });
}

// Host functions run at once, in the calling thread, as all other work does.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    return machine.streams().Enqueue(found, {WorkKind::kHost, Nanoseconds(0), [=] { function(data); }});
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    machine.streams().WaitForStream(found);
    callback(stream, cudaSuccess, data);
    return Error::kSuccess;
  });
}

// --- Events.

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return OnCurrentGpu([&](Machine& machine, int gpu) {
    Event* created = nullptr;
    const Error error = machine.streams().events().Create(&created, gpu);
    if (error == Error::kSuccess) *event = reinterpret_cast<cudaEvent_t>(created);
    return error;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) { return ToResult(DestroyEvent(event, __func__)); }

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (!(flags & cudaEventRecordExternal)) return cudaEventRecord(event, stream);
  // In a capture, a node that records the event each time the graph is launched.
  return OnStreamAndEvent(stream, event, [](Streams& streams, Stream& marked, Event* recorded) {
    if (streams.captures().InfoOf(marked).state == Capture::State::kEnded) {
      return streams.events().Record(recorded, marked);
    }
    return streams.Enqueue(marked, {WorkKind::kEventRecord, Nanoseconds(0), nullptr});
  });
}

}  // extern "C"

}  // namespace frugal::sim
