// CUDA's handles of graphs and their nodes, what they stand for, and how lists of them are handed out: by the driver as
// by the runtime, whose names of these types mean the same.

#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "simulated_gpu/machine/captures.h"
#include "simulated_gpu/machine/graph.h"

namespace frugal::sim {

inline Graph* ToGraph(CUgraph graph) { return reinterpret_cast<Graph*>(graph); }
inline Node* ToNode(CUgraphNode node) { return reinterpret_cast<Node*>(node); }

inline std::vector<Node*> ToNodes(const CUgraphNode* nodes, size_t count) {
  std::vector<Node*> found;
  for (size_t i = 0; i < count; ++i) found.push_back(ToNode(nodes[i]));
  return found;
}

// As CUDA hands out lists: their length where `into` is null; else up to *count of them, and null in the places left.
inline void GiveNodes(const std::vector<Node*>& nodes, CUgraphNode* into, size_t* count) {
  if (into == nullptr) {
    *count = nodes.size();
    return;
  }
  const size_t given = std::min(*count, nodes.size());
  for (size_t i = 0; i < given; ++i) into[i] = reinterpret_cast<CUgraphNode>(nodes[i]);
  for (size_t i = given; i < *count; ++i) into[i] = nullptr;
  *count = given;
}

// What is given where a pointer is null is left out.
template <typename Status, typename Id>
void GiveCaptureInfo(const Captures::Info& info, Status* status, Id* id, CUgraph* graph, const CUgraphNode** tail,
                     size_t* count) {
  *status = static_cast<Status>(info.state);
  if (id != nullptr) *id = info.id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(info.graph);
  if (tail != nullptr) *tail = info.tail == nullptr ? nullptr : reinterpret_cast<const CUgraphNode*>(info.tail->data());
  if (count != nullptr) *count = info.tail == nullptr ? 0 : info.tail->size();
}

}  // namespace frugal::sim
