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
  // A file descriptor for each 2 MiB, fetched with pidfd_getfd, would be the way; ordinary containers refuse that
  // call, and a gigabyte passes the usual limit on open files.
  TORCH_CHECK(!segment->mapped,
              "frugal_alloc cannot share this tensor with another process, because its memory is mapped in small "
              "parts. Make tensors that are to be shared inside `with torch.cuda.use_mem_pool(torch.cuda.MemPool()):`"
              ", whose memory comes from PyTorch's own allocator, or after frugal_alloc.disable().");
  cudaIpcMemHandle_t handle;
  C10_CUDA_CHECK(cudaIpcGetMemHandle(&handle, segment->address.pointer()));
  std::string form = {kFormVersion, kMallocSegment};
  form.append(handle.reserved, sizeof(handle.reserved));
  return {(Address(pointer) - segment->address).count(), form};
}

}  // namespace frugal
