// Streams of work in simulated time, the events that mark points in them, and their capture into graphs.

#ifndef FRUGAL_CUDA_SIMULATED_STREAMS_H_
#define FRUGAL_CUDA_SIMULATED_STREAMS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/simulated/calls.h"
#include "cuda/simulated/capture.h"
#include "cuda/simulated/clock.h"
#include "cuda/simulated/context.h"
#include "cuda/simulated/error.h"
#include "cuda/simulated/event.h"
#include "cuda/simulated/graph.h"
#include "cuda/simulated/handles.h"
#include "cuda/simulated/late_work.h"
#include "cuda/simulated/order_checker.h"
#include "cuda/simulated/vector_clock.h"

namespace frugal::sim {

// Guarded by Streams' lock, except what never changes.
struct Stream {
  enum class Kind {
    kBlocking,     // Ordered with its context's legacy stream.
    kNonBlocking,  // Ordered with no other stream.
    kLegacy,       // Its context's default stream: ordered with all blocking streams of that context.
  };

  const uint64_t id;
  const int gpu;
  Context* const context;
  const Kind kind;
  const int priority;

  Nanoseconds busy_until{0};
  std::shared_ptr<Capture> capture = nullptr;  // Not null: work goes into a graph.
  std::vector<Node*> tail = {};                // What the next node of that graph depends on.

  // With an order checker: its numbers there (its own, then one for each further branch of a graph), and what is done
  // before its next operation begins.
  std::vector<uint32_t> order_numbers = {};
  VectorClock order = {};
};

// Thread-safe. No lock is held while work runs or the host waits.
class Streams {
 public:
  // CUDA's values of a stream that name no stream of the program's own.
  static constexpr uint64_t kDefaultHandle = 0;
  static constexpr uint64_t kLegacyHandle = 1;
  static constexpr uint64_t kPerThreadHandle = 2;

  struct CaptureInfo {
    Capture::State state = Capture::State::kEnded;  // kEnded: the stream is not being captured.
    uint64_t id = 0;
    Graph* graph = nullptr;
    // What the next node will depend on; valid until the stream's next call.
    const std::vector<Node*>* tail = nullptr;
  };

  // Who else is concerned with work; nullptr is nobody.
  struct Observers {
    OrderChecker* order = nullptr;
    LateWork* late = nullptr;
    bool late_data = true;
  };

  Streams(Clock& clock, Calls& calls, Contexts& contexts, Observers observers)
      : clock_(clock),
        calls_(calls),
        contexts_(contexts),
        order_(observers.order),
        late_(observers.late),
        late_data_(observers.late_data) {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // --- Streams.

  Stream* Create(Context& context, Stream::Kind kind, int priority);
  // In its primary context.
  Stream* Create(int gpu, Stream::Kind kind, int priority) { return Create(contexts_.primary(gpu), kind, priority); }
  // Work that it still has goes on. A later stream takes its address, and so its handle.
  Error Destroy(Stream* stream);
  // The stream that `handle` means to the calling thread, whose context is `context`; nullptr if there is none.
  Stream* Find(uint64_t handle, Context& context);
  Stream* Find(uint64_t handle, int gpu) { return Find(handle, contexts_.primary(gpu)); }
  // What a handle was that means no stream: "stream 3 of GPU 0, destroyed", or "never a stream".
  std::string WhatWas(uint64_t handle) const;

  // Records the work if the stream is being captured, else makes the stream busy with it, and does it at once unless
  // work is late.
  Error Enqueue(Stream& stream, Work work);
  // Late work that is over by now is run; other calls here see to it by themselves. Returns that time.
  Nanoseconds RunDue();
  // Launches in the sense of a fault plan: kernels and graphs.
  Error Launch(Stream& stream, Work work);
  // The stream has work up to `time`, or for longer if it had before.
  void SetBusyUntil(Stream& stream, Nanoseconds time);
  // kNotReady while it has work.
  Error Query(Stream& stream);
  Error Synchronize(Stream& stream);
  // All work of the context or, of a primary one, of its GPU.
  Error SynchronizeContext(const Context& context);
  Error SynchronizeGpu(int gpu) { return SynchronizeContext(contexts_.primary(gpu)); }
  // As SynchronizeGpu, but part of another call (such as cudaFree), so not counted.
  void WaitForGpu(int gpu) { WaitForContext(contexts_.primary(gpu)); }
  void WaitForStream(Stream& stream);
  bool IsBusy(int gpu) const;
  // What the stream is called in reports of the order checker.
  void NameForOrder(const Stream& stream, std::string name);
  // With an order checker: whether a wait of `stream` for `event` would change nothing. False for an unknown event.
  bool IsOrderedAfter(const Stream& stream, Event* event) const;

  // --- Events, each of one GPU, on whose streams alone it can be recorded; streams of any GPU can wait for it.

  Event* CreateEvent(int gpu = 0);
  // As cudaEventCreate: counted, and may fail by plan.
  Error CreateEvent(Event** event, int gpu = 0);
  // One that another process has recorded.
  Event* CreateRecordedEvent(Nanoseconds passes_at, int gpu = 0);
  Error DestroyEvent(Event* event);
  bool Knows(const Event* event) const;
  // As WhatWas(), of what means no event.
  std::string WhatEventWas(const Event* event) const;
  // kInvalidHandle for an event of another GPU than the stream's.
  Error Record(Event* event, Stream& stream);
  // kNotReady before it has passed.
  Error QueryEvent(Event* event);
  Error SynchronizeEvent(Event* event);
  Error StreamWait(Stream& stream, Event* event);
  Error Elapsed(Event* from, Event* to, Nanoseconds* elapsed);
  Error PassesAt(Event* event, Nanoseconds* time) const;

  // --- Contexts, a primary one for all of its GPU.

  // The event passes with all that the context's streams have been given.
  Error RecordContext(Event* event, const Context& context);
  // Whatever its streams, those to come included, are given from now on waits for the event.
  Error ContextWait(const Context& context, Event* event);
  // The captures of its streams are invalidated, since it goes.
  void InvalidateCaptures(const Context& context);

  // --- Capture.

  // Into `graph`, after `tail` in it.
  Error BeginCapture(Stream& stream, CaptureMode mode, std::shared_ptr<Graph> graph, std::vector<Node*> tail);
  // `graph` is null unless this returns kSuccess.
  Error EndCapture(Stream& stream, std::shared_ptr<Graph>* graph);
  CaptureInfo GetCaptureInfo(const Stream& stream) const;
  // As cudaStreamIsCapturing: counted, and may fail by plan.
  Error QueryCapture(const Stream& stream, CaptureInfo* info) const;
  Error UpdateCaptureTail(Stream& stream, std::vector<Node*> tail, bool replace);
  // Before each call that could disturb a capture (cudaMalloc, cudaFree, cudaEventQuery, ...): what the call is to
  // return unless kSuccess. The captures that forbid it are invalidated.
  Error CheckForbiddenByCapture();

 private:
  // The following need the lock.
  void WaitForContext(const Context& context);
  bool HasEvent(const Event* event) const { return events_.Contains(event); }
  // kCaptureUnsupported if a stream of the context is being captured, whose capture is invalidated then.
  Error ForbiddenInCapturesOf(const Context& context);
  Nanoseconds Reached(const Stream& stream) const;
  Nanoseconds BusyUntil(const Context& context) const;
  // As the two before, in the order that the program has made rather than in time. Empty without a checker.
  VectorClock OrderReached(const Stream& stream) const;
  VectorClock OrderOf(const Context& context) const;
  // From `start` on; unless it runs, it is only checked.
  void AddLate(const Stream& stream, const std::shared_ptr<const Work>& work, Nanoseconds start, bool runs);
  void EnterOrder(Stream& stream, const Work& work);
  VectorClock EnterGraphOrder(Stream& stream, const Graph& graph, const VectorClock& before, size_t& branches);
  uint32_t OrderNumber(Stream& stream, size_t branch);
  void HostSees(const VectorClock& order);
  Error ForbiddenInItsCapture(Stream& stream);
  Error WaitInCapture(Stream& stream, const Event& event);
  bool HasUnjoinedWork(const Capture& capture, const Stream& origin) const;
  std::shared_ptr<Capture> Leave(Stream& origin);

  Clock& clock_;
  Calls& calls_;
  Contexts& contexts_;
  OrderChecker* const order_;
  LateWork* const late_;
  const bool late_data_;

  mutable std::mutex mutex_;
  uint64_t next_id_ = 1;
  uint64_t next_event_ = 1;
  using StreamHandles = Handles<Stream>;
  StreamHandles streams_{StreamHandles::Reuse::kLastDestroyed};
  std::map<const Context*, Stream*> legacy_;
  std::map<std::pair<const Context*, uint64_t>, Stream*> per_thread_;  // By a thread's number.
  // A point in time and in the order of work.
  struct Point {
    Nanoseconds time{0};
    VectorClock order = {};
    void Join(Nanoseconds other_time, const VectorClock& other) {
      time = std::max(time, other_time);
      order.Join(other);
    }
  };
  std::map<const Context*, Point> destroyed_;      // What streams that are gone still have to do.
  std::map<const Context*, Point> context_waits_;  // What new streams of a context begin after.
  using EventHandles = Handles<Event>;
  // So many events are gone before the address of the first of them is used again.
  static constexpr size_t kEventsKept = 4096;
  EventHandles events_{EventHandles::Reuse::kOldest, kEventsKept};
  std::vector<std::shared_ptr<Capture>> captures_;  // Those that have not ended.
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_STREAMS_H_
