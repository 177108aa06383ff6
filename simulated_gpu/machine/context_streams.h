// All streams of a context at once.

#pragma once

#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/context.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/event.h"
#include "simulated_gpu/machine/streams_state.h"
#include "simulated_gpu/machine/vector_clock.h"

namespace frugal::sim {

// A facet of Streams. A primary context stands for all of its GPU.
class ContextStreams {
 public:
  ContextStreams(StreamsState& state, const Context& context) : state_(state), context_(context) {}

  // kCaptureUnsupported if one of the streams is being captured, whose capture is invalidated then.
  Error Synchronize();
  // As Synchronize, but part of another call (such as cudaFree), so not counted.
  void Wait();
  bool IsBusy() const;
  // The event passes with all that the streams have been given.
  Error Record(Event* event);
  // Whatever the streams, those to come included, are given from now on waits for the event.
  Error WaitFor(Event* event);
  // The captures of the streams are invalidated, since the context goes.
  void InvalidateCaptures();

 private:
  // The following need the lock.
  // As Synchronize.
  Error ForbiddenInCaptures();
  Nanoseconds BusyUntil() const;
  // The same, in the order that the program has made rather than in time. Empty without a checker.
  VectorClock Order() const;

  StreamsState& state_;
  const Context& context_;
};

}  // namespace frugal::sim
