// What the runtimes of CUDA 12 and 13 say of captures and of nodes alike.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "simulated_gpu/exports/node_lists.h"
#include "simulated_gpu/exports/runtime.h"
#include "simulated_gpu/machine/captures.h"
#include "simulated_gpu/machine/graph.h"

namespace frugal::sim {

// What is given where a pointer is null is left out.
inline cudaError_t GetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                  cudaGraph_t* graph, const cudaGraphNode_t** tail, size_t* count,
                                  const char* function = __builtin_FUNCTION()) {
  return OnStream(
      stream,
      [&](Machine& machine, Stream& found) -> Error {
        Captures::Info info;
        RETURN_IF_ERROR(machine.streams().captures().Query(found, &info));
        GiveCaptureInfo(info, status, id, graph, tail, count);
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
