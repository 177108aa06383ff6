// What CUDA 12's runtime has otherwise than CUDA 13's: structs that changed, functions that took edge data on. The
// counterpart of runtime_abi_13.cc, built with CUDA 13's headers too, so that the layouts of CUDA 12 stand here.
//
// Where CUDA 13 has given a name to a function of another signature, ours gets the name as a label.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "simulated_gpu/exports/device_properties.h"
#include "simulated_gpu/exports/graph_handles.h"
#include "simulated_gpu/exports/runtime.h"

namespace frugal::sim {
namespace {

// cudaDeviceProp of CUDA 12.0 to 12.9.
struct DeviceProperties12 {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned luidDeviceNodeMask;
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  size_t totalConstMem;
  int major;
  int minor;
  size_t textureAlignment;
  size_t texturePitchAlignment;
  int deviceOverlap;
  int multiProcessorCount;
  int kernelExecTimeoutEnabled;
  int integrated;
  int canMapHostMemory;
  int computeMode;
  int textureAndSurfaceLimits[40];
  size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryClockRate;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int hostNativeAtomicSupported;
  int singleToDoublePrecisionPerfRatio;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  int cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int gpuDirectRDMASupported;
  unsigned gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported;
  int ipcEventSupported;
  int clusterLaunch;
  int unifiedFunctionPointers;
  int reserved[63];
};
static_assert(offsetof(DeviceProperties12, surfaceAlignment) == 568);
static_assert(sizeof(DeviceProperties12) == 1032);

}  // namespace
}  // namespace frugal::sim

using frugal::sim::Error;
using frugal::sim::Gpu;
using frugal::sim::Machine;

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 12000;
  return cudaSuccess;
}

extern "C" cudaError_t cudaGetDeviceProperties_v2(frugal::sim::DeviceProperties12* properties, int device) {
  return frugal::sim::OnGpu(device, [&](Machine& machine, Gpu& gpu) {
    frugal::sim::FillDeviceProperties(machine, gpu, properties);
    properties->clockRate = frugal::sim::DeviceAttribute(cudaDevAttrClockRate, machine);
    properties->memoryClockRate = frugal::sim::DeviceAttribute(cudaDevAttrMemoryClockRate, machine);
    return Error::kSuccess;
  });
}

extern "C" cudaError_t cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return cudaEventElapsedTime(milliseconds, from, to);
}

// --- Captures: each version of a function gives or takes more than the one before it. Edges carry no data here.

extern "C" cudaError_t StreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                            unsigned long long* id) __asm__("cudaStreamGetCaptureInfo");
cudaError_t StreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
  return frugal::sim::GetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr);
}

extern "C" cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                   unsigned long long* id, cudaGraph_t* graph,
                                                   const cudaGraphNode_t** tail, size_t* count) {
  return frugal::sim::GetCaptureInfo(stream, status, id, graph, tail, count);
}

extern "C" cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                   unsigned long long* id, cudaGraph_t* graph,
                                                   const cudaGraphNode_t** tail, const cudaGraphEdgeData** edges,
                                                   size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return frugal::sim::GetCaptureInfo(stream, status, id, graph, tail, count);
}

extern "C" cudaError_t StreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count,
                                                       unsigned flags) __asm__("cudaStreamUpdateCaptureDependencies");
cudaError_t StreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned flags) {
  return frugal::sim::UpdateCaptureTail(stream, nodes, count, flags);
}

extern "C" cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                              const cudaGraphEdgeData*, size_t count, unsigned flags) {
  return frugal::sim::UpdateCaptureTail(stream, nodes, count, flags);
}

// --- Graphs.

extern "C" cudaError_t GraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                                size_t* count) __asm__("cudaGraphNodeGetDependencies");
cudaError_t GraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return frugal::sim::GiveNodesBefore(node, nodes, count);
}

extern "C" cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData*,
                                                       size_t* count) {
  return frugal::sim::GiveNodesBefore(node, nodes, count);
}

extern "C" cudaError_t GraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                                  size_t* count) __asm__("cudaGraphNodeGetDependentNodes");
cudaError_t GraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return frugal::sim::GiveNodesAfter(node, nodes, count);
}

extern "C" cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                                         cudaGraphEdgeData*, size_t* count) {
  return frugal::sim::GiveNodesAfter(node, nodes, count);
}
