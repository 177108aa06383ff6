// The streams that PyTorch makes by itself, and hands out from pools: programs' side streams, and those of collectives.

#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

namespace frugal {

// Whether one of PyTorch's pools has the stream. Looks at all of them.
bool IsOfPool(cudaStream_t handle, c10::DeviceIndex device);

// Or the driver does not say, since that would disturb another thread's capture.
bool IsCaptured(cudaStream_t stream);

// Whether one of the streams of the device's pools has something to do, or is captured. Nobody waits.
bool HasBusyStreamInPool(c10::DeviceIndex device);

}  // namespace frugal
