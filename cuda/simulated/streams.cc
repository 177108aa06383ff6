#include "cuda/simulated/streams.h"

#include <algorithm>
#include <string>

#include "cuda/simulated/latency_model.h"
#include "cuda/simulated/thread_state.h"

namespace frugal::sim {
namespace {

std::string NameInReports(const Stream& stream) {
  if (stream.kind == Stream::Kind::kLegacy) return "the default stream of " + stream.context->Name();
  return "stream " + std::to_string(stream.id);
}

}  // namespace

Stream* Streams::Create(Context& context, Stream::Kind kind, int priority) {
  std::lock_guard lock(mutex_);
  Stream* stream = streams_.Create(next_id_++, context.gpu(), &context, kind, priority);
  for (const auto& [waiting, point] : context_waits_) {
    if (!context.IsWithin(*waiting)) continue;
    stream->busy_until = std::max(stream->busy_until, point.time);
    stream->order.Join(point.order);
  }
  if (order_ != nullptr) stream->order_numbers = {order_->AddStream(NameInReports(*stream))};
  return stream;
}

Error Streams::Destroy(Stream* stream) {
  std::lock_guard lock(mutex_);
  if (!streams_.Contains(stream)) return Error::kInvalidHandle;
  destroyed_[stream->context].Join(stream->busy_until, stream->order);
  if (stream->capture) stream->capture->Transition(Capture::Cause::kForbiddenCall);
  streams_.Destroy(stream, "stream " + std::to_string(stream->id) + " of " + stream->context->Name() + ", destroyed");
  return Error::kSuccess;
}

Stream* Streams::Find(uint64_t handle, Context& context) {
  if (handle > kPerThreadHandle) {
    auto* stream = reinterpret_cast<Stream*>(handle);
    std::lock_guard lock(mutex_);
    return streams_.Contains(stream) ? stream : nullptr;
  }
  const bool legacy = handle != kPerThreadHandle;
  const std::pair key(&context, ThisThread().number);
  {
    std::lock_guard lock(mutex_);
    Stream*& known = legacy ? legacy_[&context] : per_thread_[key];
    if (known) return known;
  }
  Stream* created = Create(context, legacy ? Stream::Kind::kLegacy : Stream::Kind::kBlocking, 0);
  std::lock_guard lock(mutex_);
  Stream*& known = legacy ? legacy_[&context] : per_thread_[key];
  if (!known) known = created;  // Else another thread was first, and nobody ever uses `created`.
  return known;
}

std::string Streams::WhatWas(uint64_t handle) const {
  std::lock_guard lock(mutex_);
  const std::string* was = streams_.WhatWas(reinterpret_cast<const void*>(handle));
  return was == nullptr ? "never a stream" : *was;
}

Error Streams::Enqueue(Stream& stream, Work work) {
  RunDue();
  const bool runs_now = late_ == nullptr || (!late_data_ && !work.frees_memory);
  std::function<void()> run;
  {
    std::lock_guard lock(mutex_);
    if (stream.capture) {
      if (stream.capture->state() != Capture::State::kActive) return Error::kCaptureInvalidated;
      stream.tail = {stream.capture->graph()->Add(std::move(work), stream.tail)};
      return Error::kSuccess;
    }
    const Nanoseconds start = std::max(Reached(stream), clock_.Now());
    if (late_ != nullptr || work.duration > Nanoseconds(0)) stream.busy_until = start + work.duration;
    EnterOrder(stream, work);
    if (runs_now) run = work.run;
    if (late_ != nullptr) AddLate(stream, std::make_shared<const Work>(std::move(work)), start, late_data_);
  }
  if (run) run();
  RunDue();
  return Error::kSuccess;
}

Error Streams::Launch(Stream& stream, Work work) {
  if (const Error fault = calls_.Begin(CallKind::kLaunch, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  return Enqueue(stream, std::move(work));
}

void Streams::SetBusyUntil(Stream& stream, Nanoseconds time) {
  std::lock_guard lock(mutex_);
  stream.busy_until = std::max(stream.busy_until, time);
}

Error Streams::Query(Stream& stream) {
  clock_.Pass(Calls::kShortestCall);
  const Nanoseconds now = RunDue();
  std::lock_guard lock(mutex_);
  if (const Error error = ForbiddenInItsCapture(stream); error != Error::kSuccess) return error;
  if (Reached(stream) > now) return Error::kNotReady;
  HostSees(OrderReached(stream));
  return Error::kSuccess;
}

Error Streams::Synchronize(Stream& stream) {
  if (const Error fault = calls_.Begin(CallKind::kSync, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  {
    std::lock_guard lock(mutex_);
    if (const Error error = ForbiddenInItsCapture(stream); error != Error::kSuccess) return error;
  }
  WaitForStream(stream);
  return Error::kSuccess;
}

Error Streams::SynchronizeContext(const Context& context) {
  if (const Error fault = calls_.Begin(CallKind::kSync, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  if (const Error error = CheckForbiddenByCapture(); error != Error::kSuccess) return error;
  WaitForContext(context);
  return Error::kSuccess;
}

void Streams::WaitForContext(const Context& context) {
  Nanoseconds until;
  VectorClock order;
  {
    std::lock_guard lock(mutex_);
    until = BusyUntil(context);
    order = OrderOf(context);
  }
  clock_.WaitUntil(until);
  HostSees(order);
}

void Streams::WaitForStream(Stream& stream) {
  Nanoseconds until;
  VectorClock order;
  {
    std::lock_guard lock(mutex_);
    until = Reached(stream);
    order = OrderReached(stream);
  }
  clock_.WaitUntil(until);
  HostSees(order);
}

bool Streams::IsBusy(int gpu) const {
  std::lock_guard lock(mutex_);
  return BusyUntil(contexts_.primary(gpu)) > clock_.Now();
}

Nanoseconds Streams::Reached(const Stream& stream) const {
  Nanoseconds reached = stream.busy_until;
  if (stream.kind == Stream::Kind::kBlocking) {
    const auto legacy = legacy_.find(stream.context);
    if (legacy != legacy_.end() && legacy->second) reached = std::max(reached, legacy->second->busy_until);
  } else if (stream.kind == Stream::Kind::kLegacy) {
    streams_.ForEach([&](const Stream& other) {
      if (other.context == stream.context && other.kind == Stream::Kind::kBlocking) {
        reached = std::max(reached, other.busy_until);
      }
    });
  }
  return reached;
}

Nanoseconds Streams::BusyUntil(const Context& context) const {
  Nanoseconds until{0};
  streams_.ForEach([&](const Stream& stream) {
    if (stream.context->IsWithin(context)) until = std::max(until, stream.busy_until);
  });
  for (const auto& [of, point] : destroyed_) {
    if (of->IsWithin(context)) until = std::max(until, point.time);
  }
  return until;
}

Event* Streams::CreateEvent(int gpu) {
  std::lock_guard lock(mutex_);
  return events_.Create(next_event_++, gpu);
}

Error Streams::CreateEvent(Event** event, int gpu) {
  if (const Error fault = calls_.Begin(CallKind::kEventCreate, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  *event = CreateEvent(gpu);
  return Error::kSuccess;
}

Event* Streams::CreateRecordedEvent(Nanoseconds passes_at, int gpu) {
  Event* event = CreateEvent(gpu);
  std::lock_guard lock(mutex_);
  event->Record(passes_at);
  return event;
}

Error Streams::DestroyEvent(Event* event) {
  std::lock_guard lock(mutex_);
  if (!HasEvent(event)) return Error::kInvalidHandle;
  events_.Destroy(event,
                  "event " + std::to_string(event->id()) + " of GPU " + std::to_string(event->gpu()) + ", destroyed");
  return Error::kSuccess;
}

bool Streams::Knows(const Event* event) const {
  std::lock_guard lock(mutex_);
  return HasEvent(event);
}

std::string Streams::WhatEventWas(const Event* event) const {
  std::lock_guard lock(mutex_);
  const std::string* was = events_.WhatWas(event);
  return was == nullptr ? "never an event" : *was;
}

Error Streams::Record(Event* event, Stream& stream) {
  if (const Error fault = calls_.Begin(CallKind::kEventRecord, LatencyModel::EventRecord()); fault != Error::kSuccess) {
    return fault;
  }
  std::lock_guard lock(mutex_);
  if (!HasEvent(event) || event->gpu() != stream.gpu) return Error::kInvalidHandle;
  if (!stream.capture) {
    event->Record(std::max(Reached(stream), clock_.Now()), OrderReached(stream));
    return Error::kSuccess;
  }
  if (stream.capture->state() != Capture::State::kActive) return Error::kCaptureInvalidated;
  event->RecordInCapture(stream.capture, stream.tail);
  return Error::kSuccess;
}

Error Streams::QueryEvent(Event* event) {
  if (const Error fault = calls_.Begin(CallKind::kEventQuery, LatencyModel::EventQuery()); fault != Error::kSuccess) {
    return fault;
  }
  const Nanoseconds now = RunDue();
  {
    std::lock_guard lock(mutex_);
    if (!HasEvent(event)) return Error::kInvalidHandle;
    if (event->IsInLiveCapture()) {
      event->capture()->Transition(Capture::Cause::kForbiddenCall);
      return Error::kCapturedEvent;
    }
  }
  if (const Error error = CheckForbiddenByCapture(); error != Error::kSuccess) return error;
  std::lock_guard lock(mutex_);
  if (!event->HasPassed(now)) return Error::kNotReady;
  HostSees(event->order());
  return Error::kSuccess;
}

Error Streams::SynchronizeEvent(Event* event) {
  if (const Error fault = calls_.Begin(CallKind::kSync, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  Nanoseconds until{0};
  VectorClock order;
  {
    std::lock_guard lock(mutex_);
    if (!HasEvent(event)) return Error::kInvalidHandle;
    if (event->IsInLiveCapture()) {
      event->capture()->Transition(Capture::Cause::kForbiddenCall);
      return Error::kCapturedEvent;
    }
    if (event->state() == Event::State::kRecorded) until = event->passes_at();
    order = event->order();
  }
  clock_.WaitUntil(until);
  HostSees(order);
  return Error::kSuccess;
}

Error Streams::StreamWait(Stream& stream, Event* event) {
  if (const Error fault = calls_.Begin(CallKind::kStreamWait, LatencyModel::StreamWait()); fault != Error::kSuccess) {
    return fault;
  }
  std::lock_guard lock(mutex_);
  if (!HasEvent(event)) return Error::kInvalidHandle;
  if (event->IsInLiveCapture()) return WaitInCapture(stream, *event);
  if (event->state() != Event::State::kRecorded) return Error::kSuccess;
  if (stream.capture) {
    stream.capture->Transition(Capture::Cause::kForbiddenCall);
    return Error::kCaptureIsolation;
  }
  stream.busy_until = std::max(stream.busy_until, event->passes_at());
  stream.order.Join(event->order());
  return Error::kSuccess;
}

Error Streams::Elapsed(Event* from, Event* to, Nanoseconds* elapsed) {
  std::lock_guard lock(mutex_);
  if (!HasEvent(from) || !HasEvent(to) || from->state() != Event::State::kRecorded ||
      to->state() != Event::State::kRecorded) {
    return Error::kInvalidHandle;
  }
  const Nanoseconds now = clock_.Now();
  if (!from->HasPassed(now) || !to->HasPassed(now)) return Error::kNotReady;
  *elapsed = to->passes_at() - from->passes_at();
  return Error::kSuccess;
}

Error Streams::PassesAt(Event* event, Nanoseconds* time) const {
  std::lock_guard lock(mutex_);
  if (!HasEvent(event)) return Error::kInvalidHandle;
  *time = event->passes_at();
  return Error::kSuccess;
}

}  // namespace frugal::sim
