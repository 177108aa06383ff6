// A point in a stream's work that somebody must not overtake.

#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/port/device.h"

namespace frugal {

// Owns a device event, for as long as anybody asks about it. Thread-safety: any thread; nobody is kept waiting but by
// the device.
class Fence {
 public:
  // The point that `stream` has been told to reach so far. kUnavailable: the stream is being captured.
  static absl::StatusOr<std::shared_ptr<Fence>> Record(Device& device, Stream stream);

  Fence(Device& device, Stream stream, Event event) : device_(device), stream_(stream), event_(event) {}
  ~Fence();
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;

  Stream stream() const { return stream_; }

  // Asks the device at most until the answer is yes.
  absl::StatusOr<bool> HasPassed();
  // The host waits.
  absl::Status Synchronize();
  // `stream` waits, the host does not.
  absl::Status MakeWait(Stream stream);

 private:
  Device& device_;
  const Stream stream_;
  const Event event_;
  std::atomic<bool> passed_{false};
};

}  // namespace frugal
