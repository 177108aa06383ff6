// A point in a stream's work that somebody must not overtake.

#ifndef FRUGAL_ALLOCATOR_BLOCKS_FENCE_H_
#define FRUGAL_ALLOCATOR_BLOCKS_FENCE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/port/device.h"

namespace frugal {

// Owns a device event. Shared by all that wait for the same point. Not thread-safe.
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
  void Retire();

  Device& device_;
  Stream stream_;
  Event event_;
  bool passed_ = false;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_FENCE_H_
