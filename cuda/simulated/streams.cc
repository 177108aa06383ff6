#include "cuda/simulated/streams.h"

#include <algorithm>
#include <string>

#include "cuda/simulated/latency_model.h"

namespace frugal::sim {
namespace {

std::string NameInReports(const Stream& stream) {
  if (stream.kind == Stream::Kind::kLegacy) return "the default stream of GPU " + std::to_string(stream.gpu);
  return "stream " + std::to_string(stream.id);
}

}  // namespace

Stream* Streams::Create(int gpu, Stream::Kind kind, int priority) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Stream> stream(new Stream{next_id_++, gpu, kind, priority, Nanoseconds(0), nullptr, {}});
  Stream* handle = stream.get();
  if (order_ != nullptr) handle->order_numbers = {order_->AddStream(NameInReports(*handle))};
  streams_.emplace(handle, std::move(stream));
  return handle;
}

Error Streams::Destroy(Stream* stream) {
  std::lock_guard lock(mutex_);
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return Error::kInvalidHandle;
  Nanoseconds& busy_until = destroyed_busy_until_[stream->gpu];
  busy_until = std::max(busy_until, stream->busy_until);
  if (order_ != nullptr) destroyed_order_[stream->gpu].Join(stream->order);
  if (stream->capture) stream->capture->Transition(Capture::Cause::kForbiddenCall);
  streams_.erase(it);
  return Error::kSuccess;
}

Stream* Streams::Find(uint64_t handle, int gpu) {
  if (handle > kPerThreadHandle) {
    std::lock_guard lock(mutex_);
    const auto it = streams_.find(reinterpret_cast<Stream*>(handle));
    return it == streams_.end() ? nullptr : it->first;
  }
  const bool legacy = handle != kPerThreadHandle;
  const std::pair key(gpu, std::this_thread::get_id());
  {
    std::lock_guard lock(mutex_);
    Stream*& known = legacy ? legacy_[gpu] : per_thread_[key];
    if (known) return known;
  }
  Stream* created = Create(gpu, legacy ? Stream::Kind::kLegacy : Stream::Kind::kBlocking, 0);
  std::lock_guard lock(mutex_);
  Stream*& known = legacy ? legacy_[gpu] : per_thread_[key];
  if (!known) known = created;  // Else another thread was first, and nobody ever uses `created`.
  return known;
}

Error Streams::Enqueue(Stream& stream, Work work) {
  {
    std::lock_guard lock(mutex_);
    if (stream.capture) {
      if (stream.capture->state() != Capture::State::kActive) return Error::kCaptureInvalidated;
      stream.tail = {stream.capture->graph()->Add(std::move(work), stream.tail)};
      return Error::kSuccess;
    }
    if (work.duration > Nanoseconds(0)) {
      stream.busy_until = std::max(Reached(stream), clock_.Now()) + work.duration;
    }
    EnterOrder(stream, work);
  }
  if (work.run) work.run();
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
  std::lock_guard lock(mutex_);
  if (const Error error = ForbiddenInItsCapture(stream); error != Error::kSuccess) return error;
  if (Reached(stream) > clock_.Now()) return Error::kNotReady;
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

Error Streams::SynchronizeGpu(int gpu) {
  if (const Error fault = calls_.Begin(CallKind::kSync, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  if (const Error error = CheckForbiddenByCapture(); error != Error::kSuccess) return error;
  WaitForGpu(gpu);
  return Error::kSuccess;
}

void Streams::WaitForGpu(int gpu) {
  Nanoseconds until;
  VectorClock order;
  {
    std::lock_guard lock(mutex_);
    until = BusyUntil(gpu);
    order = OrderOf(gpu);
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
  return BusyUntil(gpu) > clock_.Now();
}

Nanoseconds Streams::Reached(const Stream& stream) const {
  Nanoseconds reached = stream.busy_until;
  if (stream.kind == Stream::Kind::kBlocking) {
    const auto legacy = legacy_.find(stream.gpu);
    if (legacy != legacy_.end() && legacy->second) reached = std::max(reached, legacy->second->busy_until);
  } else if (stream.kind == Stream::Kind::kLegacy) {
    for (const auto& [other, owned] : streams_) {
      if (other->gpu == stream.gpu && other->kind == Stream::Kind::kBlocking) {
        reached = std::max(reached, other->busy_until);
      }
    }
  }
  return reached;
}

Nanoseconds Streams::BusyUntil(int gpu) const {
  Nanoseconds until{0};
  for (const auto& [stream, owned] : streams_) {
    if (stream->gpu == gpu) until = std::max(until, stream->busy_until);
  }
  const auto destroyed = destroyed_busy_until_.find(gpu);
  return destroyed == destroyed_busy_until_.end() ? until : std::max(until, destroyed->second);
}

Event* Streams::CreateEvent() {
  auto event = std::make_unique<Event>();
  Event* handle = event.get();
  std::lock_guard lock(mutex_);
  events_.emplace(handle, std::move(event));
  return handle;
}

Error Streams::CreateEvent(Event** event) {
  if (const Error fault = calls_.Begin(CallKind::kEventCreate, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  *event = CreateEvent();
  return Error::kSuccess;
}

Event* Streams::CreateRecordedEvent(Nanoseconds passes_at) {
  Event* event = CreateEvent();
  std::lock_guard lock(mutex_);
  event->Record(passes_at);
  return event;
}

Error Streams::DestroyEvent(Event* event) {
  std::lock_guard lock(mutex_);
  return events_.erase(event) ? Error::kSuccess : Error::kInvalidHandle;
}

Error Streams::Record(Event* event, Stream& stream) {
  if (const Error fault = calls_.Begin(CallKind::kEventRecord, LatencyModel::EventRecord()); fault != Error::kSuccess) {
    return fault;
  }
  std::lock_guard lock(mutex_);
  if (!Knows(event)) return Error::kInvalidHandle;
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
  {
    std::lock_guard lock(mutex_);
    if (!Knows(event)) return Error::kInvalidHandle;
    if (event->IsInLiveCapture()) {
      event->capture()->Transition(Capture::Cause::kForbiddenCall);
      return Error::kCapturedEvent;
    }
  }
  if (const Error error = CheckForbiddenByCapture(); error != Error::kSuccess) return error;
  std::lock_guard lock(mutex_);
  if (!event->HasPassed(clock_.Now())) return Error::kNotReady;
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
    if (!Knows(event)) return Error::kInvalidHandle;
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
  if (!Knows(event)) return Error::kInvalidHandle;
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
  if (!Knows(from) || !Knows(to) || from->state() != Event::State::kRecorded ||
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
  if (!Knows(event)) return Error::kInvalidHandle;
  *time = event->passes_at();
  return Error::kSuccess;
}

}  // namespace frugal::sim
