#include "bindings/shareable_storage.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace frugal {
namespace {

bool IsMapped(const DeviceAllocator& allocator, Address address) {
  const std::optional<SegmentView> segment = allocator.FindSegment(address);
  return segment.has_value() && segment->mapped;
}

void CheckNotCaptured(const std::vector<c10::cuda::CUDAStream>& streams) {
  for (const c10::cuda::CUDAStream& stream : streams) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    C10_CUDA_CHECK(cudaStreamIsCapturing(stream.stream(), &status));
    TORCH_CHECK(
        status == cudaStreamCaptureStatusNone,
        "frugal_alloc cannot share this tensor while a stream that uses it is captured into a CUDA graph: share "
        "it before the capture");
  }
}

// The host waits for all work that may use a block of `streams`, the first of which is the current one.
void WaitForWork(bool may_be_capturing, const std::vector<c10::cuda::CUDAStream>& streams) {
  if (!may_be_capturing) {
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    return;
  }
  // Waiting for the whole device would end the capture with an error.
  for (const c10::cuda::CUDAStream& stream : streams) C10_CUDA_CHECK(cudaStreamSynchronize(stream.stream()));
}

}  // namespace

bool MakeShareable(TorchAllocator& allocator, c10::StorageImpl& storage) {
  // A lazy copy becomes a real one here.
  void* const data = storage.mutable_data();
  GpuMemory* const gpu = allocator.gpus().OwnerOf(data);
  if (gpu == nullptr || !IsMapped(gpu->allocator(), Address(data))) return false;
  const c10::DataPtr& old = storage.data_ptr();
  TORCH_CHECK(
      old.get_deleter() == allocator.raw_deleter() && old.get_context() == data,
      "frugal_alloc cannot share this tensor, because its memory belongs to another object (from_blob, DLPack): "
      "share a clone() of it, or the tensor that owns the memory");

  const c10::DeviceIndex device = gpu->ordinal();
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device);
  std::vector<c10::cuda::CUDAStream> streams;
  for (const Stream stream : gpu->allocator().StreamsOf(Address(data))) {
    streams.push_back(c10::cuda::getStreamFromExternal(reinterpret_cast<cudaStream_t>(stream.id), device));
  }
  // New memory belongs to the stream that the old belonged to: what that stream does needs no record_stream.
  const c10::cuda::CUDAStreamGuard guard(streams.front());
  std::vector<c10::cuda::CUDAStream> awaited = streams;
  awaited.push_back(current);
  CheckNotCaptured(awaited);
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  WaitForWork(allocator.routing().HasOpenPool(device), awaited);

  const size_t size = storage.nbytes();
  c10::DataPtr moved = allocator.AllocateNative(std::max<size_t>(size, 1));
  C10_CUDA_CHECK(cudaMemcpyAsync(moved.get(), data, size, cudaMemcpyDeviceToDevice, guard.current_stream().stream()));
  C10_CUDA_CHECK(cudaStreamSynchronize(guard.current_stream().stream()));
  for (size_t i = 1; i < streams.size(); ++i) allocator.recordStream(moved, streams[i]);
  storage.set_data_ptr_noswap(std::move(moved));
  return true;
}

}  // namespace frugal
