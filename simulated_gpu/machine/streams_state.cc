#include "simulated_gpu/machine/streams_state.h"

#include <algorithm>
#include <optional>

namespace frugal::sim {

Nanoseconds StreamsState::RunDue() {
  const Nanoseconds now = clock.Now();
  if (late_work == nullptr) return now;
  late_work->RunUntil(now);
  while (const std::optional<Nanoseconds> until = late_work->QueueIsFullUntil()) clock.WaitUntil(*until);
  return now;
}

template <typename Visit>
void StreamsState::ForEachOrdered(const Stream& stream, Visit visit) const {
  if (stream.kind == Stream::Kind::kBlocking) {
    const auto it = legacy.find(stream.context);
    if (it != legacy.end() && it->second) visit(*it->second);
  } else if (stream.kind == Stream::Kind::kLegacy) {
    streams.ForEach([&](const Stream& other) {
      if (other.context == stream.context && other.kind == Stream::Kind::kBlocking) visit(other);
    });
  }
}

Nanoseconds StreamsState::Reached(const Stream& stream) const {
  Nanoseconds reached = stream.busy_until;
  ForEachOrdered(stream, [&](const Stream& other) { reached = std::max(reached, other.busy_until); });
  return reached;
}

VectorClock StreamsState::OrderReached(const Stream& stream) const {
  if (order_checker == nullptr) return {};
  VectorClock reached = stream.order;
  order_checker->JoinHost(reached);
  ForEachOrdered(stream, [&](const Stream& other) { reached.Join(other.order); });
  return reached;
}

std::vector<Capture*> StreamsState::ImplicitCaptures(const Stream& stream) const {
  std::vector<Capture*> found;
  if (stream.kind != Stream::Kind::kLegacy) return found;
  ForEachOrdered(stream, [&](const Stream& other) {
    if (other.capture) found.push_back(other.capture.get());
  });
  return found;
}

Error StreamsState::ForbidImplicit(const Stream& stream) {
  const std::vector<Capture*> captures = ImplicitCaptures(stream);
  for (Capture* capture : captures) capture->Transition(Capture::Cause::kForbiddenCall);
  return captures.empty() ? Error::kSuccess : Error::kCaptureImplicit;
}

Error StreamsState::CheckOutsideCapture(Event* event) {
  if (!events.Contains(event)) return Error::kInvalidHandle;
  if (!event->IsInLiveCapture()) return Error::kSuccess;
  event->capture()->Transition(Capture::Cause::kForbiddenCall);
  return Error::kCapturedEvent;
}

void StreamsState::HostSees(const VectorClock& order) {
  if (order_checker != nullptr) order_checker->HostSees(order);
}

}  // namespace frugal::sim
