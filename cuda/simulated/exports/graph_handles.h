// CUDA's handles of graphs and their nodes, and what they stand for.

#ifndef FRUGAL_CUDA_SIMULATED_EXPORTS_GRAPH_HANDLES_H_
#define FRUGAL_CUDA_SIMULATED_EXPORTS_GRAPH_HANDLES_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cuda/simulated/capture.h"
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

inline cudaStreamCaptureStatus ToStatus(Capture::State state) {
  switch (state) {
    case Capture::State::kActive:
      return cudaStreamCaptureStatusActive;
    case Capture::State::kInvalidated:
      return cudaStreamCaptureStatusInvalidated;
    case Capture::State::kEnded:
      return cudaStreamCaptureStatusNone;
  }
  return cudaStreamCaptureStatusNone;
}

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_EXPORTS_GRAPH_HANDLES_H_
