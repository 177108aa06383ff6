// Stream capture and graphs, as far as CUDA 12 and 13 agree on them.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulated_gpu/exports/graph_handles.h"
#include "simulated_gpu/exports/runtime.h"

namespace frugal::sim {

extern "C" {

// --- Capture.

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* nodes,
                                          const cudaGraphEdgeData*, size_t count, cudaStreamCaptureMode mode) {
  std::shared_ptr<Graph> found = TheMachine().graphs().Find(ToGraph(graph));
  if (!found) return ToResult(Error::kInvalidValue);
  return OnStream(stream, [&](Machine& machine, Stream& captured) {
    return machine.streams().captures().Begin(captured, static_cast<CaptureMode>(mode), std::move(found),
                                              ToNodes(nodes, count));
  });
}

// --- Graphs.

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  return ToResult(Give(graph, reinterpret_cast<cudaGraph_t>(TheMachine().graphs().Add(std::make_shared<Graph>()))));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(executable, graph, flags);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                  size_t count) {
  std::shared_ptr<Graph> found = TheMachine().graphs().Find(ToGraph(graph));
  if (!found) return ToResult(Error::kInvalidValue);
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
  return ToResult(Give(type, static_cast<cudaGraphNodeType>(ToNode(node)->work.kind)));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return ToResult(Error::kInvalidValue);
  const std::string dot = ToGraph(graph)->ToDot();
  const bool written = std::fwrite(dot.data(), 1, dot.size(), file) == dot.size();
  const bool closed = std::fclose(file) == 0;
  return ToResult(written && closed ? Error::kSuccess : Error::kUnknown);
}

// --- User objects, whose destructors a graph would call: they live as long as the process.

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void*, cudaHostFn_t, unsigned, unsigned) {
  return ToResult(Give(object, reinterpret_cast<cudaUserObject_t>(0x10)));
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t, unsigned) { return cudaSuccess; }
cudaError_t cudaGraphRetainUserObject(cudaGraph_t, cudaUserObject_t, unsigned, unsigned) { return cudaSuccess; }

}  // extern "C"

}  // namespace frugal::sim
