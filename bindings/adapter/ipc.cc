#include "bindings/adapter/ipc.h"

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <cstring>

namespace frugal {
namespace {

// The first two bytes of PyTorch's handles: the version of the form, and that a segment of cudaMalloc follows.
constexpr char kFormVersion = 2;
// From torch 2.13 on, which reads the older ones, too. Of segments of cudaMalloc it is the same but for the number.
constexpr char kNewestForm = FRUGAL_TORCH_MINOR >= 13 ? 3 : 2;
constexpr char kMallocSegment = 'c';
constexpr char kExpandableSegment = 'e';
constexpr size_t kFormBytes = 2;

// What follows the form of a handle of an expandable segment; then, for each handle of the driver's, a file descriptor
// or more.
struct ExpandableHeader {
  pid_t process;
  size_t segment_size;
  size_t handle_count;
};

bool IsExpandable(const std::string& handle) {
  if (handle.size() < kFormBytes + sizeof(ExpandableHeader)) return false;
  ExpandableHeader header;
  std::memcpy(&header, handle.data() + kFormBytes, sizeof(header));
  const size_t most = (handle.size() - kFormBytes - sizeof(header)) / sizeof(int);
  const size_t page = static_cast<size_t>(kPageSize.count());
  return header.process > 0 && header.segment_size > 0 && header.segment_size % page == 0 &&
         header.segment_size <= static_cast<size_t>(GiB(1).count()) && header.handle_count > 0 &&
         header.handle_count <= most;
}

bool IsHandle(const std::string& handle) {
  // The form of old PyTorch's: the driver's handle alone.
  if (handle.size() == sizeof(cudaIpcMemHandle_t)) return true;
  if (handle.size() < kFormBytes || handle[0] < 1 || handle[0] > kNewestForm) return false;
  if (handle[1] == kMallocSegment) return handle.size() == kFormBytes + sizeof(cudaIpcMemHandle_t);
  // What version 3 has there is PyTorch's own affair.
  return handle[1] == kExpandableSegment && (handle[0] > kFormVersion || IsExpandable(handle));
}

}  // namespace

caching::ShareableHandle ExportBlock(const DeviceAllocator& allocator, void* pointer) {
  const std::optional<SegmentView> segment = allocator.inspect().FindSegment(Address(pointer));
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

void CheckHandle(const std::string& handle) {
  TORCH_CHECK(IsHandle(handle), "frugal_alloc refuses a handle of ", handle.size(),
              " bytes for memory of another process, which is not one of PyTorch's: it was damaged on its way, or "
              "somebody made it up");
}

}  // namespace frugal
