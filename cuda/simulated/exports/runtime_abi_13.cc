// What CUDA 13's runtime has and CUDA 12's has otherwise: structs that changed, functions that took edge data on.

#include <cuda_runtime_api.h>

#include <vector>

#include "cuda/simulated/exports/device_properties.h"
#include "cuda/simulated/exports/graph_handles.h"
#include "cuda/simulated/exports/runtime.h"

using frugal::sim::Captures;
using frugal::sim::Error;
using frugal::sim::Gpu;
using frugal::sim::Machine;
using frugal::sim::OnGpu;
using frugal::sim::OnStream;
using frugal::sim::Stream;
using frugal::sim::ToNode;
using frugal::sim::ToNodes;

static_assert(CUDART_VERSION / 1000 == 13);

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return OnGpu(device, [&](Machine& machine, Gpu& gpu) {
    frugal::sim::FillDeviceProperties(machine, gpu, properties);
    return Error::kSuccess;
  });
}

extern "C" cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = frugal::sim::TheConfiguration().model.CompiledCapability();
  attributes->ptxVersion = attributes->binaryVersion;
  attributes->maxDynamicSharedSizeBytes = 48 << 10;
  return cudaSuccess;
}

// Edges carry no data here: each is an ordinary dependency.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** tail, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  return OnStream(stream, [&](Machine& machine, Stream& found) -> Error {
    Captures::Info info;
    if (const Error error = machine.streams().captures().Query(found, &info); error != Error::kSuccess) return error;
    *status = frugal::sim::ToStatus(info.state);
    if (id != nullptr) *id = info.id;
    if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(info.graph);
    if (tail != nullptr) {
      *tail = info.tail == nullptr ? nullptr : reinterpret_cast<const cudaGraphNode_t*>(info.tail->data());
    }
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = info.tail == nullptr ? 0 : info.tail->size();
    return Error::kSuccess;
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData*,
                                                size_t count, unsigned flags) {
  return OnStream(stream, [&](Machine& machine, Stream& found) {
    const bool replace = flags & cudaStreamSetCaptureDependencies;
    return machine.streams().captures().UpdateTail(found, ToNodes(nodes, count), replace);
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData*,
                                         size_t* count) {
  frugal::sim::GiveNodes(ToNode(node)->after, nodes, count);
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData*,
                                           size_t* count) {
  frugal::sim::GiveNodes(ToNode(node)->graph->NodesAfter(ToNode(node)), nodes, count);
  return cudaSuccess;
}
