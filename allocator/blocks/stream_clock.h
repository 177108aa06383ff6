// The work of one stream, as the points in it that memory has to wait for.

#ifndef FRUGAL_ALLOCATOR_BLOCKS_STREAM_CLOCK_H_
#define FRUGAL_ALLOCATOR_BLOCKS_STREAM_CLOCK_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/blocks/fence.h"
#include "allocator/port/device.h"

namespace frugal {

// A stream's work is cut into ticks, numbered from 1: Mark() puts an event into the stream, which ends the present
// tick. What is used or left behind is stamped with the tick it happened in, which costs nothing; whether a stamp has
// passed is asked of the device only when somebody wants the memory. So a free needs no event, and one event serves all
// that happened before it. 0 is the stamp of what was never used.
//
// A stream that the program may destroy (Stream::life) is touched only while the program names it: at any other time
// its present tick has no end, unless the host waits for all work of the device. Not thread-safe.
class StreamClock {
 public:
  using Tick = int64_t;

  StreamClock(Device& device, Stream stream) : device_(device), stream_(stream) {}
  StreamClock(const StreamClock&) = delete;
  StreamClock& operator=(const StreamClock&) = delete;

  Stream stream() const { return stream_; }
  // The clock is that of another stream from now on: its own has ended. REQUIRES: settled since it ended.
  void Become(Stream stream) { stream_ = stream; }
  // The tick that what the stream has been told last belongs to.
  Tick now() const { return now_; }
  // A tick up to now from its lower half. Of one more than 2^32 ticks ago this makes a later one, which is safe.
  Tick Expand(uint32_t low) const { return now_ - static_cast<uint32_t>(static_cast<uint32_t>(now_) - low); }

  // Ends the present tick. kUnavailable, kNotFound: the stream is being captured, or has ended; nothing has changed.
  // REQUIRES: the stream lasts, or the program names it at this moment.
  absl::Status Mark();
  // The host has waited for all that the stream was told so far.
  void Settle();
  // A call for this stream failed, and none has succeeded since: its events are not to be relied on.
  bool fails() const { return fails_; }
  // Whether `tick` is over, ended now if it is the present one. False: the stream is being captured, or may not be
  // touched.
  absl::StatusOr<bool> End(Tick tick);
  // Whether all work up to the end of `tick` is done. Never of the present tick, which has no end yet.
  absl::StatusOr<bool> HasPassed(Tick tick);
  // The same, with `tick` ended first if it can be.
  absl::StatusOr<bool> HasPassedOnceEnded(Tick tick);
  // The host waits until `tick`, ended now if it is the present one, has passed. kUnavailable: as false of End.
  absl::Status Synchronize(Tick tick);
  // `waiter` waits, the host does not. REQUIRES: `tick` is over.
  absl::Status MakeWait(Stream waiter, Tick tick);

 private:
  Fence& FenceOf(Tick tick) { return *fences_[static_cast<size_t>(tick - passed_ - 1)]; }
  void Passed(Tick tick);
  // Takes note of whether a call for the stream succeeded.
  absl::Status Noted(absl::Status status);

  Device& device_;
  Stream stream_;
  Tick now_ = 1;
  Tick passed_ = 0;  // all ticks up to this one have passed
  bool fails_ = false;
  std::deque<std::shared_ptr<Fence>> fences_;  // the ends of the ticks after passed_: size = now_ - passed_ - 1
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_STREAM_CLOCK_H_
