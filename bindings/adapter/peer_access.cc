#include "bindings/adapter/peer_access.h"

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <exception>

#include "absl/status/statusor.h"
#include "allocator/port/units.h"
#include "cuda/pointer_access.h"

namespace frugal {
namespace {

// What fails once is asked once more: the driver reports failures of earlier work by whichever call comes next.
template <typename Ask>
auto AskTwice(Ask ask) {
  auto answer = ask();
  return answer.ok() ? answer : ask();
}

absl::StatusOr<bool> CanReach(c10::DeviceIndex device, c10::DeviceIndex accessed) {
  int possible = 0;
  const cudaError_t error = cudaDeviceCanAccessPeer(&possible, device, accessed);
  if (error != cudaSuccess) return absl::InternalError(cudaGetErrorString(error));
  return possible != 0;
}

// A block of native's on a GPU to ask about; without memory where it has none to give.
c10::DataPtr BlockOn(c10::DeviceIndex device, caching::CUDAAllocator& native) {
  const c10::Device wanted(c10::DeviceType::CUDA, device);
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      const c10::DeviceGuard guard(wanted);
      return native.allocate(static_cast<size_t>(kGrain.count()));
    } catch (const std::exception&) {
      continue;
    }
  }
  return c10::DataPtr(nullptr, wanted);
}

bool MayHaveEnabled(c10::DeviceIndex device, c10::DeviceIndex accessed, const void* memory) {
  if (!AskTwice([&] { return CanReach(device, accessed); }).value_or(false)) return false;
  if (memory == nullptr) return true;
  return AskTwice([&] { return MayReach(device, Address(memory)); }).value_or(true);
}

// Without a context a device has enabled nothing, and to ask would make it one.
std::vector<c10::DeviceIndex> DevicesInUse() {
  std::vector<c10::DeviceIndex> devices;
  for (c10::DeviceIndex device = 0; device < c10::cuda::device_count(); ++device) {
    try {
      if (c10::cuda::hasPrimaryContext(device)) devices.push_back(device);
    } catch (const std::exception&) {
      // Perhaps: the questions below do without the answer.
      devices.push_back(device);
    }
  }
  return devices;
}

}  // namespace

std::vector<Peers> PeersOf(caching::CUDAAllocator& native) {
  std::vector<Peers> peers;
  const std::vector<c10::DeviceIndex> devices = DevicesInUse();
  if (devices.size() < 2) return peers;
  for (const c10::DeviceIndex accessed : devices) {
    const c10::DataPtr block = BlockOn(accessed, native);
    for (const c10::DeviceIndex device : devices) {
      if (device != accessed && MayHaveEnabled(device, accessed, block.get())) peers.push_back({device, accessed});
    }
  }
  return peers;
}

}  // namespace frugal
