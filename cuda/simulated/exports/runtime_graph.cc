// Stream capture and graphs, as far as CUDA 12 and 13 agree on them.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/simulated/exports/graph_handles.h"
#include "cuda/simulated/exports/runtime.h"

namespace frugal::sim {

namespace {

ExecutableGraph* ToExecutable(cudaGraphExec_t executable) { return reinterpret_cast<ExecutableGraph*>(executable); }

cudaError_t Begin(cudaStream_t stream, std::shared_ptr<Graph> graph, std::vector<Node*> tail,
                  cudaStreamCaptureMode mode, const char* function = __builtin_FUNCTION()) {
  return OnStream(
      stream,
      [&](Machine& machine, Stream& found) {
        return machine.streams().captures().Begin(found, static_cast<CaptureMode>(mode), std::move(graph),
                                                  std::move(tail));
      },
      function);
}

}  // namespace

extern "C" {

// --- Capture.

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return Begin(stream, std::make_shared<Graph>(), {}, mode);
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* nodes,
                                          const cudaGraphEdgeData*, size_t count, cudaStreamCaptureMode mode) {
  std::shared_ptr<Graph> found = TheMachine().graphs().Find(ToGraph(graph));
  if (!found) return Return(Error::kInvalidValue);
  return Begin(stream, std::move(found), ToNodes(nodes, count), mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (graph != nullptr) *graph = nullptr;
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    std::shared_ptr<Graph> captured;
    const Error error = machine.streams().captures().End(found, &captured);
    if (error == Error::kSuccess && graph != nullptr) {
      *graph = reinterpret_cast<cudaGraph_t>(machine.graphs().Add(std::move(captured)));
    }
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    Captures::Info info;
    const Error error = machine.streams().captures().Query(found, &info);
    if (error == Error::kSuccess) *status = ToStatus(info.state);
    return error;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  CaptureMode& current = ThisThread().capture_mode;
  *mode = static_cast<cudaStreamCaptureMode>(std::exchange(current, static_cast<CaptureMode>(*mode)));
  return cudaSuccess;
}

// --- Graphs.

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = reinterpret_cast<cudaGraph_t>(TheMachine().graphs().Add(std::make_shared<Graph>()));
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Return(TheMachine().graphs().Remove(ToGraph(graph)) ? Error::kSuccess : Error::kInvalidValue);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  Machine& machine = TheMachine();
  std::shared_ptr<Graph> found = machine.graphs().Find(ToGraph(graph));
  if (!found) return Return(Error::kInvalidValue);
  *executable = reinterpret_cast<cudaGraphExec_t>(machine.graphs().AddExecutable({std::move(found)}));
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(executable, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const bool removed = TheMachine().graphs().RemoveExecutable(ToExecutable(executable));
  return Return(removed ? Error::kSuccess : Error::kInvalidValue);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    std::shared_ptr<const Graph> graph = machine.graphs().FindExecutable(ToExecutable(executable));
    if (!graph) return Error::kInvalidValue;
    const Nanoseconds duration = graph->Duration();
    Work work{WorkKind::kGraph, duration, nullptr};
    if (machine.configuration().wants_uses()) work.graph = graph;
    if (ThisThread().runs_graphs) {
      work.run = [graph = std::move(graph)] { graph->Run(); };
    }
    return machine.streams().Launch(found, std::move(work));
  });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                  size_t count) {
  std::shared_ptr<Graph> found = TheMachine().graphs().Find(ToGraph(graph));
  if (!found) return Return(Error::kInvalidValue);
  *node =
      reinterpret_cast<cudaGraphNode_t>(found->Add({WorkKind::kEmpty, Nanoseconds(0), nullptr}, ToNodes(after, count)));
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  GiveNodes(ToGraph(graph)->nodes(), nodes, count);
  return cudaSuccess;
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  std::vector<Node*> roots = ToGraph(graph)->nodes();
  std::erase_if(roots, [](const Node* node) { return !node->after.empty(); });
  GiveNodes(roots, nodes, count);
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = static_cast<cudaGraphNodeType>(ToNode(node)->work.kind);
  return cudaSuccess;
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return Return(Error::kInvalidValue);
  const std::string dot = ToGraph(graph)->ToDot();
  const bool written = std::fwrite(dot.data(), 1, dot.size(), file) == dot.size();
  const bool closed = std::fclose(file) == 0;
  return Return(written && closed ? Error::kSuccess : Error::kUnknown);
}

// --- User objects, whose destructors a graph would call: they live as long as the process.

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void*, cudaHostFn_t, unsigned, unsigned) {
  *object = reinterpret_cast<cudaUserObject_t>(0x10);
  return cudaSuccess;
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t, unsigned) { return cudaSuccess; }
cudaError_t cudaGraphRetainUserObject(cudaGraph_t, cudaUserObject_t, unsigned, unsigned) { return cudaSuccess; }

}  // extern "C"

}  // namespace frugal::sim
