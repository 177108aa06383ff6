// The capture of streams' work into graphs: its beginning, its end, and the calls that it forbids.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simulated_gpu/machine/capture.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/graph.h"
#include "simulated_gpu/machine/stream.h"
#include "simulated_gpu/machine/streams_state.h"

namespace frugal::sim {

// A facet of Streams.
class Captures {
 public:
  struct Info {
    Capture::State state = Capture::State::kEnded;  // kEnded: the stream is not being captured.
    uint64_t id = 0;
    Graph* graph = nullptr;
    // What the next node will depend on; valid until the stream's next call.
    const std::vector<Node*>* tail = nullptr;
  };

  explicit Captures(StreamsState& state) : state_(state) {}

  // Into `graph`, after `tail` in it.
  Error Begin(Stream& stream, CaptureMode mode, std::shared_ptr<Graph> graph, std::vector<Node*> tail);
  // `graph` is null unless this returns kSuccess.
  Error End(Stream& stream, std::shared_ptr<Graph>* graph);
  Info InfoOf(const Stream& stream) const;
  // As cudaStreamIsCapturing: counted, and may fail by plan. kCaptureImplicit of a legacy stream while a blocking one
  // of its context is being captured, which goes on.
  Error Query(const Stream& stream, Info* info) const;
  Error UpdateTail(Stream& stream, std::vector<Node*> tail, bool replace);
  // Before each call that could disturb a capture (cudaMalloc, cudaFree, cudaEventQuery, ...): what the call is to
  // return unless kSuccess. The captures that forbid it are invalidated.
  Error CheckForbidden();

 private:
  // The following need the lock.
  bool HasUnjoinedWork(const Capture& capture, const Stream& origin) const;
  std::shared_ptr<Capture> Leave(Stream& origin);

  StreamsState& state_;
};

}  // namespace frugal::sim
