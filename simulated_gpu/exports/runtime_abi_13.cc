// What CUDA 13's runtime has and CUDA 12's has otherwise: structs that changed, functions that took edge data on.

#include <cuda_runtime_api.h>

#include "simulated_gpu/exports/device_properties.h"
#include "simulated_gpu/exports/graph_handles.h"
#include "simulated_gpu/exports/runtime.h"

namespace frugal::sim {

extern "C" {

static_assert(CUDART_VERSION / 1000 == 13);

cudaError_t cudaRuntimeGetVersion(int* version) { return ToResult(Give(version, 13000)); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return OnGpu(device, [&](Machine& machine, Gpu& gpu) {
    FillDeviceProperties(machine, gpu, properties);
    return Error::kSuccess;
  });
}

// Edges carry no data here: each is an ordinary dependency.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** tail, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return GetCaptureInfo(stream, status, id, graph, tail, count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData*,
                                                size_t count, unsigned flags) {
  return UpdateCaptureTail(stream, nodes, count, flags);
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData*,
                                         size_t* count) {
  return GiveNodesBefore(node, nodes, count);
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData*,
                                           size_t* count) {
  return GiveNodesAfter(node, nodes, count);
}

}  // extern "C"

}  // namespace frugal::sim
