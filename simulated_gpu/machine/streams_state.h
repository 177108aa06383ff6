// What Streams and its facets share: the streams, the events and the captures, and the lock that guards them.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "simulated_gpu/machine/calls.h"
#include "simulated_gpu/machine/capture.h"
#include "simulated_gpu/machine/clock.h"
#include "simulated_gpu/machine/context.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/event.h"
#include "simulated_gpu/machine/handles.h"
#include "simulated_gpu/machine/late_work.h"
#include "simulated_gpu/machine/launch_queue.h"
#include "simulated_gpu/machine/order_checker.h"
#include "simulated_gpu/machine/stream.h"
#include "simulated_gpu/machine/vector_clock.h"

namespace frugal::sim {

// Not for callers of Streams.
struct StreamsState {
  // Who else is concerned with work; nullptr is nobody.
  struct Observers {
    OrderChecker* order = nullptr;
    LateWork* late = nullptr;
    bool late_data = true;
    // Time is modelled though work is not late: the host may run ahead only so far.
    bool bounded = false;
  };

  // A point in time and in the order of work.
  struct Point {
    Nanoseconds time{0};
    VectorClock order = {};
    void Join(Nanoseconds other_time, const VectorClock& other) {
      time = std::max(time, other_time);
      order.Join(other);
    }
  };

  StreamsState(Clock& its_clock, Calls& its_calls, Observers observers)
      : clock(its_clock),
        calls(its_calls),
        order_checker(observers.order),
        late_work(observers.late),
        late_data(observers.late_data),
        bounded(observers.bounded) {}
  StreamsState(const StreamsState&) = delete;
  StreamsState& operator=(const StreamsState&) = delete;

  // --- These two take no lock.

  // As Streams::RunDue.
  Nanoseconds RunDue();
  // Tells the order checker, if there is one.
  void HostSees(const VectorClock& order);

  // --- These need the lock.

  // Calls `visit` with each other stream that the stream is ordered with by what they are.
  template <typename Visit>
  void ForEachOrdered(const Stream& stream, Visit visit) const;
  // When the work that the stream has now is done.
  Nanoseconds Reached(const Stream& stream) const;
  // The same, in the order that the program has made rather than in time. Empty without a checker.
  VectorClock OrderReached(const Stream& stream) const;
  // What work of the stream would become part of without being captured itself: of a legacy stream, the captures of
  // the blocking streams that it is ordered with.
  std::vector<Capture*> ImplicitCaptures(const Stream& stream) const;
  // kCaptureImplicit if there are any, which are invalidated then.
  Error ForbidImplicit(const Stream& stream);
  // kCapturedEvent for one in a capture that is not over, which is invalidated then; kInvalidHandle for none.
  Error CheckOutsideCapture(Event* event);

  Clock& clock;
  Calls& calls;
  OrderChecker* const order_checker;
  LateWork* const late_work;
  const bool late_data;
  const bool bounded;

  // Guards all that follows, and each stream, event and capture.
  mutable std::mutex mutex;
  uint64_t next_id = 1;  // Of streams and captures.
  uint64_t next_event = 1;
  LaunchQueue queue;  // Of what was enqueued, if that is bounded.
  Handles<Stream> streams{Handles<Stream>::Reuse::kLastDestroyed};
  std::map<const Context*, Stream*> legacy;
  std::map<std::pair<const Context*, uint64_t>, Stream*> per_thread;  // By a thread's number.
  std::map<const Context*, Point> destroyed;                          // What streams that are gone still have to do.
  std::map<const Context*, Point> context_waits;                      // What new streams of a context begin after.
  // So many events are gone before the address of the first of them is used again.
  static constexpr size_t kEventsKept = 4096;
  Handles<Event> events{Handles<Event>::Reuse::kOldest, kEventsKept};
  std::vector<std::shared_ptr<Capture>> captures;  // Those that have not ended.
};

}  // namespace frugal::sim
