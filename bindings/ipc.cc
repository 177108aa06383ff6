#include "bindings/ipc.h"

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

namespace frugal {
namespace {

// The first two bytes of PyTorch's handles: the version of the form, and that a segment of cudaMalloc follows.
constexpr char kFormVersion = 2;
constexpr char kMallocSegment = 'c';

}  // namespace

caching::ShareableHandle ExportBlock(const DeviceAllocator& allocator, void* pointer) {
  const std::optional<SegmentView> segment = allocator.FindSegment(Address(pointer));
  TORCH_CHECK(segment.has_value(), "invalid device pointer: ", pointer);
  // Storages are moved before they come here, where that can be done: see shareable_storage.h.
  TORCH_CHECK(
      !segment->mapped,
      "frugal_alloc cannot give another process a handle of this memory, which is mapped in small parts. In "
      "Python, frugal_alloc.enable() lets torch.multiprocessing and UntypedStorage._share_cuda_ move a tensor as "
      "it is shared; elsewhere, call frugal_make_shareable (frugal_alloc's C interface) with its storage first.");
  cudaIpcMemHandle_t handle;
  C10_CUDA_CHECK(cudaIpcGetMemHandle(&handle, segment->address.pointer()));
  std::string form = {kFormVersion, kMallocSegment};
  form.append(handle.reserved, sizeof(handle.reserved));
  return {(Address(pointer) - segment->address).count(), form};
}

}  // namespace frugal
