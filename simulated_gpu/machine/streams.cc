#include "simulated_gpu/machine/streams.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "simulated_gpu/machine/captures.h"
#include "simulated_gpu/machine/thread_state.h"

namespace frugal::sim {
namespace {

std::string NameInReports(const Stream& stream) {
  if (stream.kind == Stream::Kind::kLegacy) return "the default stream of " + stream.context->Name();
  return "stream " + std::to_string(stream.id);
}

std::string NameInFaults(const Stream& stream) {
  return NameInReports(stream) + (stream.kind == Stream::Kind::kLegacy ? "" : " of " + stream.context->Name());
}

// Whether a stream's state may be asked for. A capture of another stream may forbid it, as an H200 has it.
Error CheckMayAsk(StreamsState& state, Stream& stream) {
  {
    std::lock_guard lock(state.mutex);
    if (stream.capture) {
      stream.capture->Transition(Capture::Cause::kForbiddenCall);
      return Error::kCaptureUnsupported;
    }
    RETURN_IF_ERROR(state.ForbidImplicit(stream));
  }
  return Captures(state).CheckForbidden();
}

}  // namespace

Stream* Streams::Create(Context& context, Stream::Kind kind, int priority) {
  std::lock_guard lock(state_.mutex);
  Stream* stream = state_.streams.Create(state_.next_id++, context.gpu(), &context, kind, priority);
  for (const auto& [waiting, point] : state_.context_waits) {
    if (!context.IsWithin(*waiting)) continue;
    stream->busy_until = std::max(stream->busy_until, point.time);
    stream->order.Join(point.order);
  }
  if (state_.order_checker != nullptr)
    stream->order_numbers = {state_.order_checker->AddStream(NameInReports(*stream))};
  return stream;
}

Error Streams::Destroy(Stream* stream) {
  std::lock_guard lock(state_.mutex);
  if (!state_.streams.Contains(stream)) return Error::kInvalidHandle;
  state_.destroyed[stream->context].Join(stream->busy_until, stream->order);
  if (stream->capture) stream->capture->Transition(Capture::Cause::kForbiddenCall);
  state_.streams.Destroy(stream,
                         "stream " + std::to_string(stream->id) + " of " + stream->context->Name() + ", destroyed");
  return Error::kSuccess;
}

Stream* Streams::Find(uint64_t handle, Context& context) {
  if (handle > kPerThreadHandle) {
    auto* stream = reinterpret_cast<Stream*>(handle);
    std::lock_guard lock(state_.mutex);
    return state_.streams.Contains(stream) ? stream : nullptr;
  }
  const bool legacy = handle != kPerThreadHandle;
  const std::pair key(&context, ThisThread().number);
  {
    std::lock_guard lock(state_.mutex);
    Stream*& known = legacy ? state_.legacy[&context] : state_.per_thread[key];
    if (known) return known;
  }
  Stream* created = Create(context, legacy ? Stream::Kind::kLegacy : Stream::Kind::kBlocking, 0);
  std::lock_guard lock(state_.mutex);
  Stream*& known = legacy ? state_.legacy[&context] : state_.per_thread[key];
  if (!known) known = created;  // Else another thread was first, and nobody ever uses `created`.
  return known;
}

std::string Streams::WhatWas(uint64_t handle) const {
  std::lock_guard lock(state_.mutex);
  const std::string* was = state_.streams.WhatWas(reinterpret_cast<const void*>(handle));
  return was == nullptr ? "never a stream" : *was;
}

Error Streams::Enqueue(Stream& stream, Work work) {
  state_.RunDue();
  const bool runs_now = state_.late_work == nullptr || (!state_.late_data && !work.frees_memory);
  std::function<void()> run;
  Nanoseconds host_waits_until{0};
  {
    std::lock_guard lock(state_.mutex);
    if (stream.capture) {
      if (stream.capture->state() != Capture::State::kActive) return Error::kCaptureInvalidated;
      stream.tail = {stream.capture->graph()->Add(std::move(work), stream.tail)};
      return Error::kSuccess;
    }
    RETURN_IF_ERROR(state_.ForbidImplicit(stream));
    const Nanoseconds now = state_.clock.Now();
    const Nanoseconds start = std::max(state_.Reached(stream), now);
    if (state_.late_work != nullptr || work.duration > Nanoseconds(0)) stream.busy_until = start + work.duration;
    if (state_.bounded) host_waits_until = state_.queue.Add(start + work.duration, now);
    EnterOrder(stream, work);
    if (runs_now) run = work.run;
    if (state_.late_work != nullptr)
      AddLate(stream, std::make_shared<const Work>(std::move(work)), start, state_.late_data);
  }
  if (run) run();
  if (state_.bounded) state_.clock.WaitUntil(host_waits_until);
  state_.RunDue();
  return Error::kSuccess;
}

void Streams::AddLate(const Stream& stream, const std::shared_ptr<const Work>& work, Nanoseconds start, bool runs) {
  const bool moves_data = (runs || work->frees_memory) && work->run != nullptr;
  if (work->graph == nullptr) {
    if (moves_data || !work->uses.empty()) {
      state_.late_work->Add(start + work->duration, NameInFaults(stream), work, moves_data);
    }
    return;
  }
  // Each node touches its memory when it ends.
  for (const auto& [node, end] : work->graph->Ends()) {
    const std::shared_ptr<const Work> part(work, &node->work);  // Keeps the graph.
    AddLate(stream, part, start + end - part->duration, moves_data);
  }
}

Error Streams::Launch(Stream& stream, Work work) {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kLaunch));
  return Enqueue(stream, std::move(work));
}

void Streams::SetBusyUntil(Stream& stream, Nanoseconds time) {
  std::lock_guard lock(state_.mutex);
  stream.busy_until = std::max(stream.busy_until, time);
}

Error Streams::Query(Stream& stream) {
  state_.clock.Pass(Calls::kShortestCall);
  const Nanoseconds now = state_.RunDue();
  RETURN_IF_ERROR(CheckMayAsk(state_, stream));
  std::lock_guard lock(state_.mutex);
  if (state_.Reached(stream) > now) return Error::kNotReady;
  state_.HostSees(state_.OrderReached(stream));
  return Error::kSuccess;
}

Error Streams::Synchronize(Stream& stream) {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kSync));
  RETURN_IF_ERROR(CheckMayAsk(state_, stream));
  WaitForStream(stream);
  return Error::kSuccess;
}

void Streams::WaitForStream(Stream& stream) {
  Nanoseconds until;
  VectorClock order;
  {
    std::lock_guard lock(state_.mutex);
    until = state_.Reached(stream);
    order = state_.OrderReached(stream);
  }
  state_.clock.WaitUntil(until);
  state_.HostSees(order);
}

}  // namespace frugal::sim
