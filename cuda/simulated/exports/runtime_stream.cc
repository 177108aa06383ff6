// The runtime's streams and events.

#include <cuda_runtime_api.h>

#include <algorithm>

#include "cuda/simulated/exports/runtime.h"

using frugal::sim::Error;
using frugal::sim::Event;
using frugal::sim::Machine;
using frugal::sim::Nanoseconds;
using frugal::sim::OnCurrentGpu;
using frugal::sim::OnStream;
using frugal::sim::Return;
using frugal::sim::Stream;
using frugal::sim::TheMachine;
using frugal::sim::WorkKind;

namespace {

Event* ToEvent(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

}  // namespace

// --- Streams.

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return OnCurrentGpu([&](Machine& machine, int gpu) {
    const auto kind = flags & cudaStreamNonBlocking ? Stream::Kind::kNonBlocking : Stream::Kind::kBlocking;
    *stream = reinterpret_cast<cudaStream_t>(machine.streams().Create(gpu, kind, priority));
    return Error::kSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Return(TheMachine().streams().Destroy(reinterpret_cast<Stream*>(stream)));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return OnStream(stream, [](Machine& machine, Stream& found) { return machine.streams().Query(found); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return OnStream(stream, [](Machine& machine, Stream& found) { return machine.streams().Synchronize(found); });
}

extern "C" cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return OnStream(stream,
                  [&](Machine& machine, Stream& found) { return machine.streams().StreamWait(found, ToEvent(event)); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    *priority = found.priority;
    return Error::kSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    *flags = found.kind == Stream::Kind::kNonBlocking ? cudaStreamNonBlocking : cudaStreamDefault;
    return Error::kSuccess;
  });
}

extern "C" cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    *device = found.gpu;
    return Error::kSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return OnStream(stream, [&](Machine&, Stream& found) {
    *id = found.id;
    return Error::kSuccess;
  });
}

// Host functions run at once, in the calling thread, as all other work does.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    return machine.streams().Enqueue(found, {WorkKind::kHost, Nanoseconds(0), [=] { function(data); }});
  });
}

extern "C" cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    machine.streams().WaitForStream(found);
    callback(stream, cudaSuccess, data);
    return Error::kSuccess;
  });
}

// --- Events.

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return OnCurrentGpu([&](Machine& machine, int) {
    Event* created = nullptr;
    const Error error = machine.streams().CreateEvent(&created);
    if (error == Error::kSuccess) *event = reinterpret_cast<cudaEvent_t>(created);
    return error;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) { return Return(TheMachine().streams().DestroyEvent(ToEvent(event))); }

extern "C" cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return OnStream(stream,
                  [&](Machine& machine, Stream& found) { return machine.streams().Record(ToEvent(event), found); });
}

extern "C" cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (!(flags & cudaEventRecordExternal)) return cudaEventRecord(event, stream);
  // In a capture, a node that records the event each time the graph is launched.
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    if (machine.streams().GetCaptureInfo(found).state == frugal::sim::Capture::State::kEnded) {
      return machine.streams().Record(ToEvent(event), found);
    }
    return machine.streams().Enqueue(found, {WorkKind::kEventRecord, Nanoseconds(0), nullptr});
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return Return(TheMachine().streams().QueryEvent(ToEvent(event))); }

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Return(TheMachine().streams().SynchronizeEvent(ToEvent(event)));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  Nanoseconds elapsed{0};
  const Error error = TheMachine().streams().Elapsed(ToEvent(from), ToEvent(to), &elapsed);
  if (error != Error::kSuccess) return Return(error);
  // Programs divide by it.
  constexpr float kLeast = 1e-6f;
  *milliseconds = std::max(kLeast, static_cast<float>(elapsed.count()) / 1e6f);
  return cudaSuccess;
}
