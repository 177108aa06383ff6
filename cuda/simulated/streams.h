// Streams of work in simulated time, the events that mark points in them, and their capture into graphs.

#ifndef FRUGAL_CUDA_SIMULATED_STREAMS_H_
#define FRUGAL_CUDA_SIMULATED_STREAMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/simulated/calls.h"
#include "cuda/simulated/capture.h"
#include "cuda/simulated/clock.h"
#include "cuda/simulated/error.h"
#include "cuda/simulated/event.h"
#include "cuda/simulated/graph.h"
#include "cuda/simulated/order_checker.h"
#include "cuda/simulated/vector_clock.h"

namespace frugal::sim {

// Guarded by Streams' lock, except what never changes.
struct Stream {
  enum class Kind {
    kBlocking,     // Ordered with the GPU's legacy stream.
    kNonBlocking,  // Ordered with no other stream.
    kLegacy,       // The GPU's default stream: ordered with all its blocking streams.
  };

  const uint64_t id;
  const int gpu;
  const Kind kind;
  const int priority;

  Nanoseconds busy_until{0};
  std::shared_ptr<Capture> capture;  // Not null: work goes into a graph.
  std::vector<Node*> tail;           // What the next node of that graph depends on.

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

  // `order` may be null: nobody checks the order of work.
  Streams(Clock& clock, Calls& calls, OrderChecker* order = nullptr) : clock_(clock), calls_(calls), order_(order) {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // --- Streams.

  Stream* Create(int gpu, Stream::Kind kind, int priority);
  // Work that it still has goes on.
  Error Destroy(Stream* stream);
  // The stream that `handle` means to the calling thread on `gpu`; nullptr if there is none.
  Stream* Find(uint64_t handle, int gpu);

  // Records the work if the stream is being captured, else does it at once and makes the stream busy with it.
  Error Enqueue(Stream& stream, Work work);
  // Launches in the sense of a fault plan: kernels and graphs.
  Error Launch(Stream& stream, Work work);
  // The stream has work up to `time`, or for longer if it had before.
  void SetBusyUntil(Stream& stream, Nanoseconds time);
  // kNotReady while it has work.
  Error Query(Stream& stream);
  Error Synchronize(Stream& stream);
  Error SynchronizeGpu(int gpu);
  // As SynchronizeGpu, but part of another call (such as cudaFree), so not counted.
  void WaitForGpu(int gpu);
  void WaitForStream(Stream& stream);
  bool IsBusy(int gpu) const;
  // What the stream is called in reports of the order checker.
  void NameForOrder(const Stream& stream, std::string name);
  // With an order checker: whether a wait of `stream` for `event` would change nothing. False for an unknown event.
  bool IsOrderedAfter(const Stream& stream, Event* event) const;

  // --- Events.

  Event* CreateEvent();
  // As cudaEventCreate: counted, and may fail by plan.
  Error CreateEvent(Event** event);
  // One that another process has recorded.
  Event* CreateRecordedEvent(Nanoseconds passes_at);
  Error DestroyEvent(Event* event);
  Error Record(Event* event, Stream& stream);
  // kNotReady before it has passed.
  Error QueryEvent(Event* event);
  Error SynchronizeEvent(Event* event);
  Error StreamWait(Stream& stream, Event* event);
  Error Elapsed(Event* from, Event* to, Nanoseconds* elapsed);
  Error PassesAt(Event* event, Nanoseconds* time) const;

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
  Nanoseconds Reached(const Stream& stream) const;
  Nanoseconds BusyUntil(int gpu) const;
  // As the two before, in the order that the program has made rather than in time. Empty without a checker.
  VectorClock OrderReached(const Stream& stream) const;
  VectorClock OrderOf(int gpu) const;
  void EnterOrder(Stream& stream, const Work& work);
  VectorClock EnterGraphOrder(Stream& stream, const Graph& graph, const VectorClock& before, size_t& branches);
  uint32_t OrderNumber(Stream& stream, size_t branch);
  void HostSees(const VectorClock& order);
  bool Knows(Event* event) const { return events_.contains(event); }
  Error ForbiddenInItsCapture(Stream& stream);
  Error WaitInCapture(Stream& stream, const Event& event);
  bool HasUnjoinedWork(const Capture& capture, const Stream& origin) const;
  std::shared_ptr<Capture> Leave(Stream& origin);

  Clock& clock_;
  Calls& calls_;
  OrderChecker* const order_;

  mutable std::mutex mutex_;
  uint64_t next_id_ = 1;
  std::unordered_map<Stream*, std::unique_ptr<Stream>> streams_;
  std::map<int, Stream*> legacy_;  // By GPU.
  std::map<std::pair<int, std::thread::id>, Stream*> per_thread_;
  std::map<int, Nanoseconds> destroyed_busy_until_;  // By GPU: what streams that are gone still have to do.
  std::map<int, VectorClock> destroyed_order_;       // The same, for the order checker.
  std::unordered_map<Event*, std::unique_ptr<Event>> events_;
  std::vector<std::shared_ptr<Capture>> captures_;  // Those that have not ended.
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_STREAMS_H_
