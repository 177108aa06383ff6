// The events of a machine: points in the work of its streams that others wait for.

#pragma once

#include <string>

#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/event.h"
#include "simulated_gpu/machine/stream.h"
#include "simulated_gpu/machine/streams_state.h"

namespace frugal::sim {

// A facet of Streams. Each event is of one GPU, on whose streams alone it can be recorded; streams of any GPU can wait
// for it.
class Events {
 public:
  explicit Events(StreamsState& state) : state_(state) {}

  Event* Create(int gpu = 0);
  // As cudaEventCreate: counted, and may fail by plan.
  Error Create(Event** event, int gpu = 0);
  // One that another process has recorded.
  Event* CreateRecorded(Nanoseconds passes_at, int gpu = 0);
  Error Destroy(Event* event);
  bool Knows(const Event* event) const;
  // As Streams::WhatWas(), of what means no event.
  std::string WhatWas(const Event* event) const;
  // kInvalidHandle for an event of another GPU than the stream's.
  Error Record(Event* event, Stream& stream);
  // kNotReady before it has passed.
  Error Query(Event* event);
  Error Synchronize(Event* event);
  Error StreamWait(Stream& stream, Event* event);
  Error Elapsed(Event* from, Event* to, Nanoseconds* elapsed);
  Error PassesAt(Event* event, Nanoseconds* time) const;
  // With an order checker: whether a wait of `stream` for `event` would change nothing. False for an unknown event.
  bool IsOrderedAfter(const Stream& stream, Event* event) const;

 private:
  StreamsState& state_;
};

}  // namespace frugal::sim
