// Which stream a handle means: a program destroys streams, and their handles come again.

#pragma once

#include <cuda.h>

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "allocator/port/device.h"
#include "cuda/driver_api.h"

namespace frugal {

// By cuStreamGetId, whose number no other stream of a process ever has. A driver before CUDA 12.0 lacks it, and one
// that fails says nothing: what has one handle then counts as one stream. Thread-safety: any thread.
class StreamLives {
 public:
  // `context`: any of the device.
  StreamLives(const DriverApi& api, CUcontext context) : api_(api), context_(context) {}
  StreamLives(const StreamLives&) = delete;
  StreamLives& operator=(const StreamLives&) = delete;

  // `stream`, which the program names at this moment and may destroy later, with its life. REQUIRES: of a default
  // stream, its context is the thread's.
  Stream Name(Stream stream);
  // kNotFound: the handle names another stream by now, or none. REQUIRES: as Name. The handle of a stream that lasts is
  // not looked at.
  absl::Status Check(Stream stream);

 private:
  // The latest stream of a handle.
  struct Life {
    unsigned long long id;  // the driver's; 0: not known
    uint16_t number;        // Stream::life
  };

  unsigned long long IdOf(Stream stream) const;

  const DriverApi& api_;
  const CUcontext context_;
  absl::Mutex mutex_;
  // By the stream without its life.
  absl::flat_hash_map<Stream, Life> latest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace frugal
