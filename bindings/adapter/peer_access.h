// Which GPUs may reach which: asked of the driver, since PyTorch tells its allocator only once.

#pragma once

#include <vector>

#include "bindings/adapter/torch_compat.h"

namespace frugal {

struct Peers {
  c10::DeviceIndex device;
  c10::DeviceIndex accessed;
};

// The peers that PyTorch enabled before we were installed; and those that it may have enabled, where the driver does
// not say: to let in a GPU that needs it not costs time, to keep out one that does ends the program. Changes nothing
// but that native may keep a free block of memory more; does not fail.
std::vector<Peers> PeersOf(caching::CUDAAllocator& native);

}  // namespace frugal
