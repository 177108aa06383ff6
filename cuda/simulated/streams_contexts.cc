// The part of Streams that deals with all streams of a context at once.

#include <algorithm>

#include "cuda/simulated/latency_model.h"
#include "cuda/simulated/streams.h"

namespace frugal::sim {

Error Streams::RecordContext(Event* event, const Context& context) {
  if (const Error fault = calls_.Begin(CallKind::kEventRecord, LatencyModel::EventRecord()); fault != Error::kSuccess) {
    return fault;
  }
  std::lock_guard lock(mutex_);
  if (!HasEvent(event) || event->gpu() != context.gpu()) return Error::kInvalidHandle;
  if (const Error error = ForbiddenInCapturesOf(context); error != Error::kSuccess) return error;
  VectorClock order = OrderOf(context);
  if (order_ != nullptr) order_->JoinHost(order);
  event->Record(std::max(BusyUntil(context), clock_.Now()), std::move(order));
  return Error::kSuccess;
}

Error Streams::ContextWait(const Context& context, Event* event) {
  if (const Error fault = calls_.Begin(CallKind::kStreamWait, LatencyModel::StreamWait()); fault != Error::kSuccess) {
    return fault;
  }
  std::lock_guard lock(mutex_);
  if (!HasEvent(event)) return Error::kInvalidHandle;
  if (event->IsInLiveCapture()) {
    event->capture()->Transition(Capture::Cause::kForbiddenCall);
    return Error::kCapturedEvent;
  }
  if (const Error error = ForbiddenInCapturesOf(context); error != Error::kSuccess) return error;
  if (event->state() != Event::State::kRecorded) return Error::kSuccess;
  streams_.ForEach([&](Stream& stream) {
    if (!stream.context->IsWithin(context)) return;
    stream.busy_until = std::max(stream.busy_until, event->passes_at());
    stream.order.Join(event->order());
  });
  context_waits_[&context].Join(event->passes_at(), event->order());
  return Error::kSuccess;
}

void Streams::InvalidateCaptures(const Context& context) {
  std::lock_guard lock(mutex_);
  (void)ForbiddenInCapturesOf(context);
}

Error Streams::ForbiddenInCapturesOf(const Context& context) {
  Error error = Error::kSuccess;
  streams_.ForEach([&](Stream& stream) {
    if (!stream.capture || !stream.context->IsWithin(context)) return;
    stream.capture->Transition(Capture::Cause::kForbiddenCall);
    error = Error::kCaptureUnsupported;
  });
  return error;
}

}  // namespace frugal::sim
