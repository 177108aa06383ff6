#include "bindings/peer_access.h"

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

namespace frugal {
namespace {

// There is no question for it: enabling access is refused if it is enabled, and undone if it was not.
bool HasPeerAccess(c10::DeviceIndex device, c10::DeviceIndex accessed) {
  int possible = 0;
  C10_CUDA_CHECK(cudaDeviceCanAccessPeer(&possible, device, accessed));
  if (possible == 0) return false;
  const c10::DeviceGuard guard(c10::Device(c10::DeviceType::CUDA, device));
  const cudaError_t error = cudaDeviceEnablePeerAccess(accessed, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
    return true;
  }
  C10_CUDA_CHECK(error);
  C10_CUDA_CHECK(cudaDeviceDisablePeerAccess(accessed));
  return false;
}

}  // namespace

void CopyPeerAccess(GpuSet& gpus) {
  const c10::DeviceIndex count = c10::cuda::device_count();
  for (c10::DeviceIndex device = 0; device < count; ++device) {
    for (c10::DeviceIndex accessed = 0; accessed < count; ++accessed) {
      // A device without a context has enabled nothing, and asking would make it one.
      if (device == accessed || !c10::cuda::hasPrimaryContext(device) || !c10::cuda::hasPrimaryContext(accessed)) {
        continue;
      }
      if (HasPeerAccess(device, accessed)) gpus.AllowPeer(device, accessed);
    }
  }
}

}  // namespace frugal
