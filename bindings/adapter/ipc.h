// Our memory for other processes.

#pragma once

#include <string>

#include "allocator/device_allocator.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

// The handle by which another process opens the block at `pointer`, in the form that PyTorch's allocator reads.
// Throws c10::Error for mapped memory, which has no handle of this kind (shareable_storage.h moves it).
caching::ShareableHandle ExportBlock(const DeviceAllocator& allocator, void* pointer);

// Throws c10::Error if the bytes cannot be a handle of PyTorch's. Its allocator reads what is missing from memory that
// was never written, and divides by a size that it finds in there. Whether the memory exists, the driver says.
void CheckHandle(const std::string& handle);

}  // namespace frugal
