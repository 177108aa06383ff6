// Fills a cudaDeviceProp of any CUDA version: the struct grows and shrinks between them, the fields below are in all.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "simulated_gpu/exports/device_attributes.h"
#include "simulated_gpu/machine/machine.h"

namespace frugal::sim {

template <typename Properties>
void FillDeviceProperties(const Machine& machine, const Gpu& gpu, Properties* properties) {
  const auto attribute = [&machine](int number) { return DeviceAttribute(number, machine); };
  Properties& p = *properties;
  p = {};
  std::snprintf(p.name, sizeof(p.name), "%s", machine.configuration().model.name.c_str());
  std::memcpy(&p.uuid, gpu.uuid().data(), sizeof(p.uuid));
  p.totalGlobalMem = static_cast<size_t>(gpu.memory().total().count());
  p.major = attribute(cudaDevAttrComputeCapabilityMajor);
  p.minor = attribute(cudaDevAttrComputeCapabilityMinor);
  p.pciDomainID = kPciDomain;
  p.pciBusID = PciBus(gpu);

  p.multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
  p.warpSize = attribute(cudaDevAttrWarpSize);
  p.maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
  p.maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  p.maxBlocksPerMultiProcessor = attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  p.maxThreadsDim[0] = attribute(cudaDevAttrMaxBlockDimX);
  p.maxThreadsDim[1] = attribute(cudaDevAttrMaxBlockDimY);
  p.maxThreadsDim[2] = attribute(cudaDevAttrMaxBlockDimZ);
  p.maxGridSize[0] = attribute(cudaDevAttrMaxGridDimX);
  p.maxGridSize[1] = attribute(cudaDevAttrMaxGridDimY);
  p.maxGridSize[2] = attribute(cudaDevAttrMaxGridDimZ);

  p.sharedMemPerBlock = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlock));
  p.sharedMemPerBlockOptin = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  p.sharedMemPerMultiprocessor = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  p.reservedSharedMemPerBlock = static_cast<size_t>(attribute(cudaDevAttrReservedSharedMemoryPerBlock));
  p.regsPerBlock = attribute(cudaDevAttrMaxRegistersPerBlock);
  p.regsPerMultiprocessor = attribute(cudaDevAttrMaxRegistersPerMultiprocessor);
  p.totalConstMem = static_cast<size_t>(attribute(cudaDevAttrTotalConstantMemory));
  p.l2CacheSize = attribute(cudaDevAttrL2CacheSize);
  p.memoryBusWidth = attribute(cudaDevAttrGlobalMemoryBusWidth);
  p.memPitch = static_cast<size_t>(attribute(cudaDevAttrMaxPitch));
  p.textureAlignment = static_cast<size_t>(attribute(cudaDevAttrTextureAlignment));

  p.asyncEngineCount = attribute(cudaDevAttrAsyncEngineCount);
  p.concurrentKernels = attribute(cudaDevAttrConcurrentKernels);
  p.integrated = attribute(cudaDevAttrIntegrated);
  p.pageableMemoryAccess = attribute(cudaDevAttrPageableMemoryAccess);
  p.unifiedAddressing = attribute(cudaDevAttrUnifiedAddressing);
  p.managedMemory = attribute(cudaDevAttrManagedMemory);
  p.concurrentManagedAccess = attribute(cudaDevAttrConcurrentManagedAccess);
  p.canMapHostMemory = attribute(cudaDevAttrCanMapHostMemory);
  p.hostRegisterSupported = attribute(cudaDevAttrHostRegisterSupported);
  p.canUseHostPointerForRegisteredMem = attribute(cudaDevAttrCanUseHostPointerForRegisteredMem);
  p.streamPrioritiesSupported = attribute(cudaDevAttrStreamPrioritiesSupported);
  p.cooperativeLaunch = attribute(cudaDevAttrCooperativeLaunch);
  p.memoryPoolsSupported = attribute(cudaDevAttrMemoryPoolsSupported);
}

}  // namespace frugal::sim
