// The runtime's streams and events.

#include <cuda_runtime_api.h>

#include <algorithm>

#include "cuda/simulated/exports/runtime.h"

namespace frugal::sim {

namespace {

cudaError_t CreateStream(cudaStream_t* stream, unsigned flags, int priority,
                         const char* function = __builtin_FUNCTION()) {
  return InCurrentContext(
      [&](Machine& machine, Context& context) -> Error {
        RETURN_IF_ERROR(machine.driver_memory().MakeStream(context.gpu()));
        const auto kind = flags & cudaStreamNonBlocking ? Stream::Kind::kNonBlocking : Stream::Kind::kBlocking;
        *stream = reinterpret_cast<cudaStream_t>(machine.streams().Create(context, kind, priority));
        return Error::kSuccess;
      },
      function);
}

// Calls `body` with the streams and the event, which none of the functions needs a context for.
template <typename Body>
cudaError_t OnEvent(cudaEvent_t event, Body body, const char* function = __builtin_FUNCTION()) {
  if (const Error error = CheckEvent(event, function); error != Error::kSuccess) return Return(error);
  return Return(body(TheMachine().streams(), reinterpret_cast<Event*>(event)));
}

// Calls `body` with the streams, the stream and the event.
template <typename Body>
cudaError_t OnStreamAndEvent(cudaStream_t stream, cudaEvent_t event, Body body,
                             const char* function = __builtin_FUNCTION()) {
  if (const Error error = CheckEvent(event, function); error != Error::kSuccess) return Return(error);
  return OnStream(
      stream,
      [&](Machine& machine, Stream& found) { return body(machine.streams(), found, reinterpret_cast<Event*>(event)); },
      function);
}

}  // namespace

extern "C" {

// --- Streams.

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return CreateStream(stream, flags, priority);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return CreateStream(stream, flags, /*priority=*/0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return CreateStream(stream, /*flags=*/0, /*priority=*/0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) { return Return(DestroyStream(stream, __func__)); }

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return OnStream(stream, [](Machine& machine, Stream& found) { return machine.streams().Query(found); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return OnStream(stream, [](Machine& machine, Stream& found) { return machine.streams().Synchronize(found); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return OnStreamAndEvent(stream, event, [](Streams& streams, Stream& waiting, Event* awaited) {
    return streams.events().StreamWait(waiting, awaited);
  });
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

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
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

cudaError_t cudaEventDestroy(cudaEvent_t event) { return Return(DestroyEvent(event, __func__)); }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return OnStreamAndEvent(stream, event, [](Streams& streams, Stream& marked, Event* recorded) {
    return streams.events().Record(recorded, marked);
  });
}

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

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return OnEvent(event, [](Streams& streams, Event* asked) { return streams.events().Query(asked); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return OnEvent(event, [](Streams& streams, Event* awaited) { return streams.events().Synchronize(awaited); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  Nanoseconds elapsed{0};
  if (const Error error = CheckEvent(to, __func__); error != Error::kSuccess) return Return(error);
  const cudaError_t result = OnEvent(from, [&](Streams& streams, Event* first) {
    return streams.events().Elapsed(first, reinterpret_cast<Event*>(to), &elapsed);
  });
  if (result != cudaSuccess) return result;
  // Programs divide by it.
  constexpr float kLeast = 1e-6f;
  *milliseconds = std::max(kLeast, static_cast<float>(elapsed.count()) / 1e6f);
  return cudaSuccess;
}

}  // extern "C"

}  // namespace frugal::sim
