// The recording of streams' work into a graph.

#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "simulated_gpu/machine/graph.h"

namespace frugal::sim {

struct Stream;

// Which threads may not make calls that could disturb the capture. Numbered as cudaStreamCaptureMode.
enum class CaptureMode { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

// Guarded by Streams' lock.
class Capture {
 public:
  // Numbered as cudaStreamCaptureStatus.
  enum class State {
    kEnded = 0,
    kActive = 1,
    kInvalidated = 2,  // Something happened that a graph cannot hold: nothing but the end can follow.
  };
  enum class Cause { kForbiddenCall, kEnd };

  Capture(uint64_t id, std::shared_ptr<Graph> graph, CaptureMode mode, const Stream* origin)
      : id_(id), graph_(std::move(graph)), mode_(mode), origin_(origin), thread_(std::this_thread::get_id()) {}

  State state() const { return state_; }
  // The one place where the state changes.
  void Transition(Cause cause) {
    if (state_ == State::kEnded) return;
    state_ = cause == Cause::kEnd ? State::kEnded : State::kInvalidated;
  }

  // Never 0, never used twice.
  uint64_t id() const { return id_; }
  const std::shared_ptr<Graph>& graph() const { return graph_; }
  CaptureMode mode() const { return mode_; }
  // The stream that it began on, where it has to end.
  const Stream* origin() const { return origin_; }
  bool BeganOnThisThread() const { return thread_ == std::this_thread::get_id(); }

  // Whether a call that could disturb a capture must not be made by this thread, whose own mode is `mode`.
  bool Forbids(CaptureMode mode) const {
    if (mode == CaptureMode::kRelaxed || state_ == State::kEnded) return false;
    if (BeganOnThisThread()) return mode_ != CaptureMode::kRelaxed;
    return mode == CaptureMode::kGlobal && mode_ == CaptureMode::kGlobal;
  }

 private:
  const uint64_t id_;
  const std::shared_ptr<Graph> graph_;
  const CaptureMode mode_;
  const Stream* const origin_;
  const std::thread::id thread_;
  State state_ = State::kActive;
};

}  // namespace frugal::sim
