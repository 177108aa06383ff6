#include "simulated_gpu/machine/context_streams.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "simulated_gpu/machine/captures.h"

namespace frugal::sim {

Error ContextStreams::Synchronize() {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kSync));
  RETURN_IF_ERROR(Captures(state_).CheckForbidden());
  {
    // Whatever the modes are: those are for calls that may disturb a capture, and this one always does.
    std::lock_guard lock(state_.mutex);
    RETURN_IF_ERROR(ForbiddenInCaptures());
  }
  Wait();
  return Error::kSuccess;
}

void ContextStreams::Wait() {
  Nanoseconds until;
  VectorClock order;
  {
    std::lock_guard lock(state_.mutex);
    until = BusyUntil();
    order = Order();
  }
  state_.clock.WaitUntil(until);
  state_.HostSees(order);
}

bool ContextStreams::IsBusy() const {
  std::lock_guard lock(state_.mutex);
  return BusyUntil() > state_.clock.Now();
}

Error ContextStreams::Record(Event* event) {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kEventRecord));
  std::lock_guard lock(state_.mutex);
  if (!state_.events.Contains(event) || event->gpu() != context_.gpu()) return Error::kInvalidHandle;
  RETURN_IF_ERROR(ForbiddenInCaptures());
  VectorClock order = Order();
  if (state_.order_checker != nullptr) state_.order_checker->JoinHost(order);
  event->Record(std::max(BusyUntil(), state_.clock.Now()), std::move(order));
  return Error::kSuccess;
}

Error ContextStreams::WaitFor(Event* event) {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kStreamWait));
  std::lock_guard lock(state_.mutex);
  RETURN_IF_ERROR(state_.CheckOutsideCapture(event));
  RETURN_IF_ERROR(ForbiddenInCaptures());
  if (event->state() != Event::State::kRecorded) return Error::kSuccess;
  state_.streams.ForEach([&](Stream& stream) {
    if (!stream.context->IsWithin(context_)) return;
    stream.busy_until = std::max(stream.busy_until, event->passes_at());
    stream.order.Join(event->order());
  });
  state_.context_waits[&context_].Join(event->passes_at(), event->order());
  return Error::kSuccess;
}

void ContextStreams::InvalidateCaptures() {
  std::lock_guard lock(state_.mutex);
  (void)ForbiddenInCaptures();
}

Error ContextStreams::ForbiddenInCaptures() {
  Error error = Error::kSuccess;
  state_.streams.ForEach([&](Stream& stream) {
    if (!stream.capture || !stream.context->IsWithin(context_)) return;
    stream.capture->Transition(Capture::Cause::kForbiddenCall);
    error = Error::kCaptureUnsupported;
  });
  return error;
}

Nanoseconds ContextStreams::BusyUntil() const {
  Nanoseconds until{0};
  state_.streams.ForEach([&](const Stream& stream) {
    if (stream.context->IsWithin(context_)) until = std::max(until, stream.busy_until);
  });
  for (const auto& [of, point] : state_.destroyed) {
    if (of->IsWithin(context_)) until = std::max(until, point.time);
  }
  return until;
}

VectorClock ContextStreams::Order() const {
  if (state_.order_checker == nullptr) return {};
  VectorClock all;
  state_.streams.ForEach([&](const Stream& stream) {
    if (stream.context->IsWithin(context_)) all.Join(stream.order);
  });
  for (const auto& [of, point] : state_.destroyed) {
    if (of->IsWithin(context_)) all.Join(point.order);
  }
  return all;
}

}  // namespace frugal::sim
