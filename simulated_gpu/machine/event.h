// A point in a stream's work, in simulated time or in a capture.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "simulated_gpu/machine/capture.h"
#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/vector_clock.h"

namespace frugal::sim {

// Guarded by Streams' lock.
class Event {
 public:
  enum class State {
    kNew,       // Never recorded: counts as passed.
    kRecorded,  // Passes at passes_at().
    kCaptured,  // A point in a graph: it has no time.
  };

  Event(uint64_t id, int gpu) : id_(id), gpu_(gpu) {}

  uint64_t id() const { return id_; }
  // On whose streams it can be recorded.
  int gpu() const { return gpu_; }
  State state() const { return state_; }

  // Each record replaces the one before it, from any state. `order` is empty without an order checker, and for an event
  // of another process.
  void Record(Nanoseconds passes_at, VectorClock order = {}) {
    Transition(State::kRecorded, passes_at, nullptr, {});
    order_ = std::move(order);
  }
  void RecordInCapture(std::shared_ptr<Capture> capture, std::vector<Node*> nodes) {
    Transition(State::kCaptured, Nanoseconds(0), std::move(capture), std::move(nodes));
  }

  Nanoseconds passes_at() const { return passes_at_; }
  bool HasPassed(Nanoseconds now) const { return state_ != State::kRecorded || passes_at_ <= now; }

  // Whether it lies in a capture that is not over yet.
  bool IsInLiveCapture() const { return state_ == State::kCaptured && capture_->state() != Capture::State::kEnded; }
  const std::shared_ptr<Capture>& capture() const { return capture_; }
  // What the graph had reached when it was recorded.
  const std::vector<Node*>& nodes() const { return nodes_; }
  // What is done once it has passed.
  const VectorClock& order() const { return order_; }

 private:
  void Transition(State to, Nanoseconds passes_at, std::shared_ptr<Capture> capture, std::vector<Node*> nodes) {
    state_ = to;
    passes_at_ = passes_at;
    capture_ = std::move(capture);
    nodes_ = std::move(nodes);
    order_ = VectorClock();
  }

  const uint64_t id_;
  const int gpu_;
  State state_ = State::kNew;
  Nanoseconds passes_at_{0};
  std::shared_ptr<Capture> capture_;
  std::vector<Node*> nodes_;
  VectorClock order_;
};

}  // namespace frugal::sim
