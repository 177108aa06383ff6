// The runtime's devices and the access between them.

#include <cuda_runtime_api.h>

#include <cstdio>

#include "simulated_gpu/exports/device_attributes.h"
#include "simulated_gpu/exports/driver_entry_point.h"
#include "simulated_gpu/exports/runtime.h"

namespace frugal::sim {

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = TheMachine().gpu_count();
  return ToResult(*count > 0 ? Error::kSuccess : TheMachine().NoGpuError());
}

cudaError_t cudaGetDevice(int* device) {
  *device = ThisThread().gpu;
  return ToResult(TheMachine().gpu_count() > 0 ? Error::kSuccess : TheMachine().NoGpuError());
}

cudaError_t cudaSetDevice(int device) {
  return OnGpu(device, [&](Machine& machine, Gpu& gpu) {
    gpu.Use();
    ThisThread().SetContext(&machine.contexts().primary(device));
    return Error::kSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return OnGpu(device, [](Machine&, Gpu& gpu) {
    gpu.Use();
    return Error::kSuccess;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

cudaError_t cudaGetDeviceFlags(unsigned* flags) { return ToResult(Give(flags, 0)); }

cudaError_t cudaDeviceSynchronize() {
  return OnCurrentGpu([](Machine& machine, int gpu) { return machine.streams().of(gpu).Synchronize(); });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return OnGpu(device, [&](Machine& machine, Gpu& gpu) {
    return Give(value, attribute == cudaDevAttrPciBusId ? PciBus(gpu) : DeviceAttribute(attribute, machine));
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return OnGpu(device, [&](Machine&, Gpu& gpu) {
    std::snprintf(id, static_cast<size_t>(length), "%04x:%02x:00.0", kPciDomain, PciBus(gpu));
    return Error::kSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

// A real driver, too, is as new as the newest program it serves, and says so to older ones.
cudaError_t cudaDriverGetVersion(int* version) { return ToResult(Give(version, kDriverVersion)); }

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned cuda_version,
                                             unsigned long long, cudaDriverEntryPointQueryResult* result) {
  if (name == nullptr || function == nullptr) return ToResult(Error::kInvalidValue);
  *function = FindDriverEntryPoint(name, static_cast<int>(cuda_version));
  const bool found = *function != nullptr;
  if (result != nullptr) *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(name, function, /*cudaVersion=*/0, flags, result);
}

// --- Peers.

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return OnCurrentGpu([&](Machine& machine, int gpu) {
    return machine.HasGpu(peer) && peer != gpu ? machine.segments().EnablePeer(gpu, peer) : Error::kInvalidDevice;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return OnCurrentGpu([&](Machine& machine, int gpu) { return machine.segments().DisablePeer(gpu, peer); });
}

// --- The profiler, which has nothing to see here.

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"

}  // namespace frugal::sim
