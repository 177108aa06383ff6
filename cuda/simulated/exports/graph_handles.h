// CUDA's handles of graphs and their nodes, what they stand for, and what the runtimes of CUDA 12 and 13 say of them
// alike.

#ifndef FRUGAL_CUDA_SIMULATED_EXPORTS_GRAPH_HANDLES_H_
#define FRUGAL_CUDA_SIMULATED_EXPORTS_GRAPH_HANDLES_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cuda/simulated/capture.h"
#include "cuda/simulated/exports/runtime.h"
#include "cuda/simulated/graph.h"

namespace frugal::sim {

inline Graph* ToGraph(cudaGraph_t graph) { return reinterpret_cast<Graph*>(graph); }
inline Node* ToNode(cudaGraphNode_t node) { return reinterpret_cast<Node*>(node); }

inline std::vector<Node*> ToNodes(const cudaGraphNode_t* nodes, size_t count) {
  std::vector<Node*> found;
  for (size_t i = 0; i < count; ++i) found.push_back(ToNode(nodes[i]));
  return found;
}

// As CUDA hands out lists: their length where `into` is null; else up to *count of them, and null in the places left.
inline void GiveNodes(const std::vector<Node*>& nodes, cudaGraphNode_t* into, size_t* count) {
  if (into == nullptr) {
    *count = nodes.size();
    return;
  }
  const size_t given = std::min(*count, nodes.size());
  for (size_t i = 0; i < given; ++i) into[i] = reinterpret_cast<cudaGraphNode_t>(nodes[i]);
  for (size_t i = given; i < *count; ++i) into[i] = nullptr;
  *count = given;
}

// What is given where a pointer is null is left out.
inline cudaError_t GetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                  cudaGraph_t* graph, const cudaGraphNode_t** tail, size_t* count,
                                  const char* function = __builtin_FUNCTION()) {
  return OnStream(
      stream,
      [&](Machine& machine, Stream& found) -> Error {
        Captures::Info info;
        RETURN_IF_ERROR(machine.streams().captures().Query(found, &info));
        *status = static_cast<cudaStreamCaptureStatus>(info.state);
        if (id != nullptr) *id = info.id;
        if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(info.graph);
        if (tail != nullptr) {
          *tail = info.tail == nullptr ? nullptr : reinterpret_cast<const cudaGraphNode_t*>(info.tail->data());
        }
        if (count != nullptr) *count = info.tail == nullptr ? 0 : info.tail->size();
        return Error::kSuccess;
      },
      function);
}

inline cudaError_t UpdateCaptureTail(cudaStream_t stream, const cudaGraphNode_t* nodes, size_t count, unsigned flags,
                                     const char* function = __builtin_FUNCTION()) {
  return OnStream(
      stream,
      [&](Machine& machine, Stream& found) {
        const bool replace = flags & cudaStreamSetCaptureDependencies;
        return machine.streams().captures().UpdateTail(found, ToNodes(nodes, count), replace);
      },
      function);
}

inline cudaError_t GiveNodesBefore(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  GiveNodes(ToNode(node)->after, nodes, count);
  return cudaSuccess;
}

inline cudaError_t GiveNodesAfter(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  GiveNodes(ToNode(node)->graph->NodesAfter(ToNode(node)), nodes, count);
  return cudaSuccess;
}

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_EXPORTS_GRAPH_HANDLES_H_
