#include "cuda/simulated/capture.h"

namespace frugal::sim {

void Capture::Transition(Cause cause) {
  switch (state_) {
    case State::kActive:
      state_ = cause == Cause::kEnd ? State::kEnded : State::kInvalidated;
      return;
    case State::kInvalidated:
      if (cause == Cause::kEnd) state_ = State::kEnded;
      return;
    case State::kEnded:
      return;
  }
}

bool Capture::Forbids(CaptureMode mode) const {
  if (mode == CaptureMode::kRelaxed || state_ == State::kEnded) return false;
  if (BeganOnThisThread()) return mode_ != CaptureMode::kRelaxed;
  return mode == CaptureMode::kGlobal && mode_ == CaptureMode::kGlobal;
}

}  // namespace frugal::sim
