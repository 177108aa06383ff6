// What the driver says of captures and of the graphs that they make.

#include <cuda.h>

#include "simulated_gpu/exports/driver.h"
#include "simulated_gpu/exports/node_lists.h"

namespace frugal::sim {

extern "C" {

// Edges carry no data here: each is an ordinary dependency.
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                const CUgraphNode** tail, const CUgraphEdgeData** edges, size_t* count) {
  return OnStream(stream, [&](Machine& machine, Stream& found) -> Error {
    Captures::Info info;
    RETURN_IF_ERROR(machine.streams().captures().Query(found, &info));
    if (edges != nullptr) *edges = nullptr;
    GiveCaptureInfo(info, status, id, graph, tail, count);
    return Error::kSuccess;
  });
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData*, size_t* count) {
  GiveNodes(ToNode(node)->after, nodes, count);
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace frugal::sim
