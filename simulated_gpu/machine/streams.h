// Streams of work in simulated time, the events that mark points in them, and their capture into graphs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "simulated_gpu/machine/calls.h"
#include "simulated_gpu/machine/captures.h"
#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/context.h"
#include "simulated_gpu/machine/context_streams.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/events.h"
#include "simulated_gpu/machine/graph.h"
#include "simulated_gpu/machine/stream.h"
#include "simulated_gpu/machine/streams_state.h"
#include "simulated_gpu/machine/vector_clock.h"

namespace frugal::sim {

// Thread-safe. No lock is held while work runs or the host waits.
class Streams {
 public:
  // CUDA's values of a stream that name no stream of the program's own.
  static constexpr uint64_t kDefaultHandle = 0;
  static constexpr uint64_t kLegacyHandle = 1;
  static constexpr uint64_t kPerThreadHandle = 2;

  using Observers = StreamsState::Observers;

  Streams(Clock& clock, Calls& calls, Contexts& contexts, Observers observers)
      : contexts_(contexts), state_(clock, calls, observers) {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  Stream* Create(Context& context, Stream::Kind kind, int priority);
  // In its primary context.
  Stream* Create(int gpu, Stream::Kind kind, int priority) { return Create(contexts_.primary(gpu), kind, priority); }
  // Work that it still has goes on. A later stream takes its address, and so its handle.
  Error Destroy(Stream* stream);
  // The stream that `handle` means to the calling thread, whose context is `context`; nullptr if there is none.
  Stream* Find(uint64_t handle, Context& context);
  Stream* Find(uint64_t handle, int gpu) { return Find(handle, contexts_.primary(gpu)); }
  // What a handle was that means no stream: "stream 3 of GPU 0, destroyed", or "never a stream".
  std::string WhatWas(uint64_t handle) const;

  // Records the work if the stream is being captured, else makes the stream busy with it, and does it at once unless
  // work is late.
  Error Enqueue(Stream& stream, Work work);
  // Late work that is over by now is run; other calls here see to it by themselves. Returns that time.
  Nanoseconds RunDue() { return state_.RunDue(); }
  // Launches in the sense of a fault plan: kernels and graphs.
  Error Launch(Stream& stream, Work work);
  // The stream has work up to `time`, or for longer if it had before.
  void SetBusyUntil(Stream& stream, Nanoseconds time);
  // kNotReady while it has work.
  Error Query(Stream& stream);
  Error Synchronize(Stream& stream);
  // As Synchronize, but part of another call, so not counted.
  void WaitForStream(Stream& stream);
  // What the stream is called in reports of the order checker.
  void NameForOrder(const Stream& stream, std::string name);

  // What else there is to do with streams, by concern. Each refers to this object, which must outlive it.
  Events events() { return Events(state_); }
  Captures captures() { return Captures(state_); }
  ContextStreams of(const Context& context) { return ContextStreams(state_, context); }
  // All streams of the GPU.
  ContextStreams of(int gpu) { return of(contexts_.primary(gpu)); }

 private:
  // The following need the lock.
  // From `start` on; unless it runs, it is only checked.
  void AddLate(const Stream& stream, const std::shared_ptr<const Work>& work, Nanoseconds start, bool runs);
  void EnterOrder(Stream& stream, const Work& work);
  VectorClock EnterGraphOrder(Stream& stream, const Graph& graph, const VectorClock& before, size_t& branches);
  uint32_t OrderNumber(Stream& stream, size_t branch);

  Contexts& contexts_;
  StreamsState state_;
};

}  // namespace frugal::sim
