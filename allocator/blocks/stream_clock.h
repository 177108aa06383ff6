// The work of one stream, as the points in it that memory has to wait for.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/blocks/allocator_locks.h"
#include "allocator/blocks/fence.h"
#include "allocator/port/device.h"

namespace frugal {

// A stream's work is cut into ticks, numbered from 1. What is used or left behind is stamped with the tick it happened
// in, which costs nothing; whether a stamp has passed is asked of the device only when somebody wants the memory. So a
// free needs no event, and one event serves all that happened before it. 0 is the stamp of what was never used.
//
// A tick is closed before the device is asked for the event that ends it, since others free memory meanwhile: that
// event comes after all of the tick's work. Where the device refuses one, the next that it makes ends that tick, too.
//
// A stream that the program may destroy (Stream::life) is touched only while the program names it: at any other time
// its latest ticks have no end, unless the host waits for all work of the device.
//
// Not thread-safe. What asks the device lets go of the accounting lock meanwhile: of what was read before, only clocks
// themselves are to be relied on afterwards.
class StreamClock {
 public:
  using Tick = int64_t;

  StreamClock(Device& device, Stream stream, AllocatorLocks lock) : device_(device), stream_(stream), lock_(lock) {}
  StreamClock(const StreamClock&) = delete;
  StreamClock& operator=(const StreamClock&) = delete;

  Stream stream() const { return stream_; }
  // The clock is that of another stream from now on: its own has ended. REQUIRES: settled since it ended.
  void Become(Stream stream) { stream_ = stream; }
  // The tick that what the stream has been told last belongs to.
  Tick now() const { return now_; }
  // A tick up to now from its lower half. Of one more than 2^32 ticks ago this makes a later one, which is safe.
  Tick Expand(uint32_t low) const { return now_ - static_cast<uint32_t>(static_cast<uint32_t>(now_) - low); }

  // --- What is known, without asking.

  // All work up to the end of `tick` is done.
  bool IsPassed(Tick tick) const { return tick <= passed_; }
  // The latest tick that an event ends, or that has passed.
  Tick last_ended() const { return ends_.empty() ? passed_ : ends_.back().tick; }
  bool IsEnded(Tick tick) const { return tick <= last_ended(); }
  // A call for this stream failed, and none has succeeded since: its events are not to be relied on.
  bool fails() const { return fails_; }

  // Closes the present tick, without an end. Returns it.
  Tick Close() { return now_++; }
  // The host has waited for all that the stream was told up to the end of `tick`, which was closed before.
  void Settle(Tick tick);

  // --- What asks the device.

  // Ends the present tick. kUnavailable, kNotFound: the stream is being captured, or has ended.
  // REQUIRES: the stream lasts, or the program names it at this moment.
  absl::Status Mark();
  // Whether `tick` has an end, made now if it has none. False: the stream is being captured, or may not be touched.
  absl::StatusOr<bool> End(Tick tick);
  // Whether all work up to the end of `tick`, ended now if it has no end, is done. False: as of End.
  absl::StatusOr<bool> HasPassed(Tick tick);
  // The host waits until `tick`, ended now if it has no end, has passed. kUnavailable: as false of End.
  absl::Status Synchronize(Tick tick);
  // `waiter` waits, the host does not. REQUIRES: `tick` has an end.
  absl::Status MakeWait(Stream waiter, Tick tick);
  // As the device's functions of these names.
  absl::StatusOr<std::vector<CapturePoint>> MarkInCapture();
  std::vector<CapturePoint> BehindInCapture(const std::vector<CapturePoint>& points);

 private:
  struct TickEnd {
    Tick tick;  // and of those before it that have none of their own
    std::shared_ptr<Fence> fence;
  };

  // REQUIRES: the tick has an end, and has not passed. A copy, since others may see it pass meanwhile.
  TickEnd EndOf(Tick tick) const;
  // `ask(fence)` without the accounting lock.
  template <typename Ask>
  auto Asked(const TickEnd& end, Ask&& ask) {
    return lock_.DuringDriverCall([&] { return ask(*end.fence); });
  }
  void Passed(Tick tick);
  // Takes note of whether a call for the stream succeeded.
  absl::Status Noted(absl::Status status);

  Device& device_;
  Stream stream_;
  AllocatorLocks lock_;
  Tick now_ = 1;
  Tick passed_ = 0;  // all ticks up to this one have passed
  bool fails_ = false;
  std::deque<TickEnd> ends_;  // of ticks after passed_, rising
};

}  // namespace frugal
