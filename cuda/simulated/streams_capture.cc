// The part of Streams that captures work into graphs.

#include <algorithm>
#include <unordered_set>

#include "cuda/simulated/latency_model.h"
#include "cuda/simulated/streams.h"
#include "cuda/simulated/thread_state.h"

namespace frugal::sim {

Error Streams::BeginCapture(Stream& stream, CaptureMode mode, std::shared_ptr<Graph> graph, std::vector<Node*> tail) {
  std::lock_guard lock(mutex_);
  if (stream.kind == Stream::Kind::kLegacy) return Error::kCaptureUnsupported;
  if (stream.capture) return Error::kIllegalState;
  stream.capture = std::make_shared<Capture>(next_id_++, std::move(graph), mode, &stream);
  stream.tail = std::move(tail);
  captures_.push_back(stream.capture);
  return Error::kSuccess;
}

Error Streams::EndCapture(Stream& stream, std::shared_ptr<Graph>* graph) {
  graph->reset();
  std::lock_guard lock(mutex_);
  if (!stream.capture) return Error::kIllegalState;
  if (stream.capture->origin() != &stream) {
    stream.capture->Transition(Capture::Cause::kForbiddenCall);
    return Error::kCaptureUnmatched;
  }
  if (!stream.capture->BeganOnThisThread() && stream.capture->mode() != CaptureMode::kRelaxed) {
    return Error::kCaptureWrongThread;
  }
  const bool invalidated = stream.capture->state() == Capture::State::kInvalidated;
  const bool unjoined = HasUnjoinedWork(*stream.capture, stream);
  const std::shared_ptr<Capture> capture = Leave(stream);
  capture->Transition(Capture::Cause::kEnd);
  if (invalidated) return Error::kCaptureInvalidated;
  if (unjoined) return Error::kCaptureUnjoined;
  *graph = capture->graph();
  return Error::kSuccess;
}

// Whether another stream of the capture has work that `origin` does not wait for.
bool Streams::HasUnjoinedWork(const Capture& capture, const Stream& origin) const {
  std::unordered_set<const Node*> joined;
  std::vector<Node*> open = origin.tail;
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (joined.insert(node).second) open.insert(open.end(), node->after.begin(), node->after.end());
  }
  bool unjoined = false;
  streams_.ForEach([&](const Stream& stream) {
    if (stream.capture.get() != &capture || &stream == &origin) return;
    for (const Node* node : stream.tail) unjoined = unjoined || !joined.contains(node);
  });
  return unjoined;
}

// Takes all its streams out of the capture that began on `origin`.
std::shared_ptr<Capture> Streams::Leave(Stream& origin) {
  std::shared_ptr<Capture> capture = origin.capture;
  streams_.ForEach([&](Stream& stream) {
    if (stream.capture != capture) return;
    stream.capture.reset();
    stream.tail.clear();
  });
  std::erase(captures_, capture);
  return capture;
}

Streams::CaptureInfo Streams::GetCaptureInfo(const Stream& stream) const {
  std::lock_guard lock(mutex_);
  if (!stream.capture) return {};
  return {stream.capture->state(), stream.capture->id(), stream.capture->graph().get(), &stream.tail};
}

Error Streams::QueryCapture(const Stream& stream, CaptureInfo* info) const {
  if (const Error fault = calls_.Begin(CallKind::kCaptureQuery, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  *info = GetCaptureInfo(stream);
  return Error::kSuccess;
}

Error Streams::UpdateCaptureTail(Stream& stream, std::vector<Node*> tail, bool replace) {
  std::lock_guard lock(mutex_);
  if (!stream.capture) return Error::kIllegalState;
  if (replace) stream.tail.clear();
  stream.tail.insert(stream.tail.end(), tail.begin(), tail.end());
  return Error::kSuccess;
}

Error Streams::CheckForbiddenByCapture() {
  const CaptureMode mode = ThisThread().capture_mode;
  if (mode == CaptureMode::kRelaxed) return Error::kSuccess;
  std::lock_guard lock(mutex_);
  Error error = Error::kSuccess;
  for (const std::shared_ptr<Capture>& capture : captures_) {
    if (!capture->Forbids(mode)) continue;
    capture->Transition(Capture::Cause::kForbiddenCall);
    error = Error::kCaptureUnsupported;
  }
  return error;
}

Error Streams::ForbiddenInItsCapture(Stream& stream) {
  if (!stream.capture) return Error::kSuccess;
  stream.capture->Transition(Capture::Cause::kForbiddenCall);
  return Error::kCaptureUnsupported;
}

// `event` lies in a capture: `stream` joins it, or goes on in it.
Error Streams::WaitInCapture(Stream& stream, const Event& event) {
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

}  // namespace frugal::sim
