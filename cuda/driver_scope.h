// What the calling thread has to be set to for a call of the driver.

#pragma once

#include <cuda.h>

#include "absl/status/status.h"
#include "cuda/driver_api.h"

namespace frugal {

// For the time of one call: `context` is the thread's, and calls that a strict stream capture of any thread forbids are
// allowed. None of what we call is recorded into a graph, so relaxing the mode is safe.
class DriverScope {
 public:
  DriverScope(const DriverApi& api, CUcontext context) : api_(api) {
    CUcontext current = nullptr;
    status_ = api_.ToStatus(api_.CtxGetCurrent(&current), "cuCtxGetCurrent");
    if (status_.ok() && current != context) {
      status_ = api_.ToStatus(api_.CtxPushCurrent(context), "cuCtxPushCurrent");
      pushed_ = status_.ok();
    }
    if (!status_.ok()) return;
    status_ = api_.ToStatus(api_.ThreadExchangeStreamCaptureMode(&mode_), "cuThreadExchangeStreamCaptureMode");
    exchanged_ = status_.ok();
  }
  ~DriverScope() {
    // Neither can fail where its counterpart has not.
    if (exchanged_) api_.ThreadExchangeStreamCaptureMode(&mode_);
    CUcontext popped;
    if (pushed_) api_.CtxPopCurrent(&popped);
  }
  DriverScope(const DriverScope&) = delete;
  DriverScope& operator=(const DriverScope&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  const DriverApi& api_;
  absl::Status status_;
  bool pushed_ = false;
  bool exchanged_ = false;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace frugal
