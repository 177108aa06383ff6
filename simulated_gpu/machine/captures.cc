#include "simulated_gpu/machine/captures.h"

#include <mutex>
#include <unordered_set>

#include "simulated_gpu/machine/thread_state.h"

namespace frugal::sim {

Error Captures::Begin(Stream& stream, CaptureMode mode, std::shared_ptr<Graph> graph, std::vector<Node*> tail) {
  std::lock_guard lock(state_.mutex);
  if (stream.kind == Stream::Kind::kLegacy) return Error::kCaptureUnsupported;
  if (stream.capture) return Error::kIllegalState;
  stream.capture = std::make_shared<Capture>(state_.next_id++, std::move(graph), mode, &stream);
  stream.tail = std::move(tail);
  state_.captures.push_back(stream.capture);
  return Error::kSuccess;
}

Error Captures::End(Stream& stream, std::shared_ptr<Graph>* graph) {
  graph->reset();
  std::lock_guard lock(state_.mutex);
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

Captures::Info Captures::InfoOf(const Stream& stream) const {
  std::lock_guard lock(state_.mutex);
  if (!stream.capture) return {};
  return {stream.capture->state(), stream.capture->id(), stream.capture->graph().get(), &stream.tail};
}

Error Captures::Query(const Stream& stream, Info* info) const {
  RETURN_IF_ERROR(state_.calls.Begin(CallKind::kCaptureQuery));
  {
    std::lock_guard lock(state_.mutex);
    if (!state_.ImplicitCaptures(stream).empty()) return Error::kCaptureImplicit;
  }
  *info = InfoOf(stream);
  return Error::kSuccess;
}

Error Captures::UpdateTail(Stream& stream, std::vector<Node*> tail, bool replace) {
  std::lock_guard lock(state_.mutex);
  if (!stream.capture) return Error::kIllegalState;
  if (replace) stream.tail.clear();
  stream.tail.insert(stream.tail.end(), tail.begin(), tail.end());
  return Error::kSuccess;
}

Error Captures::CheckForbidden() {
  const CaptureMode mode = ThisThread().capture_mode;
  if (mode == CaptureMode::kRelaxed) return Error::kSuccess;
  std::lock_guard lock(state_.mutex);
  Error error = Error::kSuccess;
  for (const std::shared_ptr<Capture>& capture : state_.captures) {
    if (!capture->Forbids(mode)) continue;
    capture->Transition(Capture::Cause::kForbiddenCall);
    error = Error::kCaptureUnsupported;
  }
  return error;
}

// Whether another stream of the capture has work that `origin` does not wait for.
bool Captures::HasUnjoinedWork(const Capture& capture, const Stream& origin) const {
  std::unordered_set<const Node*> joined;
  std::vector<Node*> open = origin.tail;
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (joined.insert(node).second) open.insert(open.end(), node->after.begin(), node->after.end());
  }
  bool unjoined = false;
  state_.streams.ForEach([&](const Stream& stream) {
    if (stream.capture.get() != &capture || &stream == &origin) return;
    for (const Node* node : stream.tail) unjoined = unjoined || !joined.contains(node);
  });
  return unjoined;
}

// Takes all its streams out of the capture that began on `origin`.
std::shared_ptr<Capture> Captures::Leave(Stream& origin) {
  std::shared_ptr<Capture> capture = origin.capture;
  state_.streams.ForEach([&](Stream& stream) {
    if (stream.capture != capture) return;
    stream.capture.reset();
    stream.tail.clear();
  });
  std::erase(state_.captures, capture);
  return capture;
}

}  // namespace frugal::sim
