#include "simulated_gpu/machine/events.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

#include "simulated_gpu/machine/captures.h"

namespace frugal::sim {
namespace {

// `event` lies in a capture: `stream` joins it, or goes on in it.
Error WaitInCapture(Stream& stream, const Event& event) {
  const std::shared_ptr<Capture>& capture = event.capture();
  if (stream.capture && stream.capture != capture) {
    stream.capture->Transition(Capture::Cause::kForbiddenCall);
    capture->Transition(Capture::Cause::kForbiddenCall);
    return Error::kCaptureMerge;
  }
  if (!stream.capture) {
    if (stream.kind == Stream::Kind::kLegacy) {
      capture->Transition(Capture::Cause::kForbiddenCall);
      return Error::kCaptureImplicit;
    }
    stream.capture = capture;
    stream.tail.clear();
  }
  for (Node* node : event.nodes()) {
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end()) stream.tail.push_back(node);
  }
  return Error::kSuccess;
}

// Whether an event may be asked or awaited.
Error CheckMayAsk(StreamsState& state, Event* event) {
  {
    std::lock_guard lock(state.mutex);
    RETURN_IF_ERROR(state.CheckOutsideCapture(event));
  }
  return Captures(state).CheckForbidden();
}

}  // namespace

Event* Events::Create(int gpu) {
  std::lock_guard lock(state_.mutex);
  return state_.events.Create(state_.next_event++, gpu);
}

Error Events::Create(Event** event, int gpu) {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kEventCreate));
  *event = Create(gpu);
  return Error::kSuccess;
}

Event* Events::CreateRecorded(Nanoseconds passes_at, int gpu) {
  Event* event = Create(gpu);
  std::lock_guard lock(state_.mutex);
  event->Record(passes_at);
  return event;
}

Error Events::Destroy(Event* event) {
  std::lock_guard lock(state_.mutex);
  if (!state_.events.Contains(event)) return Error::kInvalidHandle;
  state_.events.Destroy(
      event, "event " + std::to_string(event->id()) + " of GPU " + std::to_string(event->gpu()) + ", destroyed");
  return Error::kSuccess;
}

bool Events::Knows(const Event* event) const {
  std::lock_guard lock(state_.mutex);
  return state_.events.Contains(event);
}

std::string Events::WhatWas(const Event* event) const {
  std::lock_guard lock(state_.mutex);
  const std::string* was = state_.events.WhatWas(event);
  return was == nullptr ? "never an event" : *was;
}

Error Events::Record(Event* event, Stream& stream) {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kEventRecord));
  std::lock_guard lock(state_.mutex);
  if (!state_.events.Contains(event) || event->gpu() != stream.gpu) return Error::kInvalidHandle;
  if (!stream.capture) {
    RETURN_IF_ERROR(state_.ForbidImplicit(stream));
    event->Record(std::max(state_.Reached(stream), state_.clock.Now()), state_.OrderReached(stream));
    return Error::kSuccess;
  }
  if (stream.capture->state() != Capture::State::kActive) return Error::kCaptureInvalidated;
  event->RecordInCapture(stream.capture, stream.tail);
  return Error::kSuccess;
}

Error Events::Query(Event* event) {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kEventQuery));
  const Nanoseconds now = state_.RunDue();
  RETURN_IF_ERROR(CheckMayAsk(state_, event));
  std::lock_guard lock(state_.mutex);
  if (!event->HasPassed(now)) return Error::kNotReady;
  state_.HostSees(event->order());
  return Error::kSuccess;
}

Error Events::Synchronize(Event* event) {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kSync));
  RETURN_IF_ERROR(CheckMayAsk(state_, event));
  Nanoseconds until{0};
  VectorClock order;
  {
    std::lock_guard lock(state_.mutex);
    if (event->state() == Event::State::kRecorded) until = event->passes_at();
    order = event->order();
  }
  state_.clock.WaitUntil(until);
  state_.HostSees(order);
  return Error::kSuccess;
}

Error Events::StreamWait(Stream& stream, Event* event) {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kStreamWait));
  std::lock_guard lock(state_.mutex);
  if (!state_.events.Contains(event)) return Error::kInvalidHandle;
  if (event->IsInLiveCapture()) return WaitInCapture(stream, *event);
  if (event->state() != Event::State::kRecorded) return Error::kSuccess;
  if (stream.capture) {
    stream.capture->Transition(Capture::Cause::kForbiddenCall);
    return Error::kCaptureIsolation;
  }
  RETURN_IF_ERROR(state_.ForbidImplicit(stream));
  stream.busy_until = std::max(stream.busy_until, event->passes_at());
  stream.order.Join(event->order());
  return Error::kSuccess;
}

Error Events::Elapsed(Event* from, Event* to, Nanoseconds* elapsed) {
  std::lock_guard lock(state_.mutex);
  if (!state_.events.Contains(from) || !state_.events.Contains(to) || from->state() != Event::State::kRecorded ||
      to->state() != Event::State::kRecorded) {
    return Error::kInvalidHandle;
  }
  const Nanoseconds now = state_.clock.Now();
  if (!from->HasPassed(now) || !to->HasPassed(now)) {
    // Whoever asks until it has passed comes to an end.
    state_.clock.Pass(Calls::kShortestCall);
    return Error::kNotReady;
  }
  *elapsed = to->passes_at() - from->passes_at();
  return Error::kSuccess;
}

Error Events::PassesAt(Event* event, Nanoseconds* time) const {
  std::lock_guard lock(state_.mutex);
  if (!state_.events.Contains(event)) return Error::kInvalidHandle;
  *time = event->passes_at();
  return Error::kSuccess;
}

bool Events::IsOrderedAfter(const Stream& stream, Event* event) const {
  std::lock_guard lock(state_.mutex);
  return state_.events.Contains(event) && state_.OrderReached(stream).Covers(event->order());
}

}  // namespace frugal::sim
