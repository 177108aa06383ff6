// The driver's copies, captures and graphs, and the time between events: what a program that knows no runtime uses, as
// the GPU check does.

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "cuda/simulated/exports/driver.h"
#include "cuda/simulated/graph.h"
#include "cuda/simulated/streams.h"

namespace frugal::sim {

namespace {

bool Moves(const Machine& machine, size_t size) { return machine.configuration().moves(ToBytes(size)); }

Graph* ToGraph(CUgraph graph) { return reinterpret_cast<Graph*>(graph); }
ExecutableGraph* ToExecutable(CUgraphExec graph) { return reinterpret_cast<ExecutableGraph*>(graph); }

}  // namespace

extern "C" {

// --- Copies.

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    const auto& configuration = machine.configuration();
    const Nanoseconds taken =
        configuration.modelled_time ? configuration.DurationOf(ToBytes(size)) : configuration.kernel;
    Work work{WorkKind::kCopy, taken, nullptr};
    if (Moves(machine, size)) {
      work.run = [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size); };
    }
    if (machine.order() != nullptr) {
      work.name = "copy";
      work.uses = {{Address(from), ToBytes(size), false}, {Address(to), ToBytes(size), true}};
    }
    return machine.streams().Enqueue(found, std::move(work));
  });
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) {
  return OnCurrentGpu([&](Machine& machine, int gpu) -> Error {
    RETURN_IF_ERROR(machine.streams().captures().CheckForbidden());
    machine.streams().of(gpu).Wait();
    if (Moves(machine, size)) std::memcpy(to, reinterpret_cast<const void*>(from), size);
    return Error::kSuccess;
  });
}

// --- Captures and graphs.

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    return machine.streams().captures().Begin(found, static_cast<CaptureMode>(mode), std::make_shared<Graph>(), {});
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  *graph = nullptr;
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    std::shared_ptr<Graph> captured;
    const Error error = machine.streams().captures().End(found, &captured);
    if (error == Error::kSuccess) *graph = reinterpret_cast<CUgraph>(machine.graphs().Add(std::move(captured)));
    return error;
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  Machine& machine = TheMachine();
  std::shared_ptr<Graph> found = machine.graphs().Find(ToGraph(graph));
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  *executable = reinterpret_cast<CUgraphExec>(machine.graphs().AddExecutable({std::move(found)}));
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    std::shared_ptr<const Graph> graph = machine.graphs().FindExecutable(ToExecutable(executable));
    if (!graph) return Error::kInvalidValue;
    Work work{WorkKind::kGraph, graph->Duration(), nullptr};
    if (machine.order() != nullptr) work.graph = graph;
    if (ThisThread().runs_graphs) work.run = [graph = std::move(graph)] { graph->Run(); };
    return machine.streams().Launch(found, std::move(work));
  });
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  const bool removed = TheMachine().graphs().RemoveExecutable(ToExecutable(executable));
  return removed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroy(CUgraph graph) {
  return TheMachine().graphs().Remove(ToGraph(graph)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// --- Time.

CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  const InDriver scope;
  Nanoseconds elapsed{0};
  const Error error =
      TheMachine().streams().events().Elapsed(reinterpret_cast<Event*>(from), reinterpret_cast<Event*>(to), &elapsed);
  if (error != Error::kSuccess) return ToResult(error);
  // Programs divide by it.
  constexpr float kLeast = 1e-6f;
  *milliseconds = std::max(kLeast, static_cast<float>(elapsed.count()) / 1e6f);
  return CUDA_SUCCESS;
}

#ifdef cuEventElapsedTime
#undef cuEventElapsedTime
// By its name before CUDA 13.
CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  return cuEventElapsedTime_v2(milliseconds, from, to);
}
#endif

}  // extern "C"

}  // namespace frugal::sim
