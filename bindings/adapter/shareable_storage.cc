#include "bindings/adapter/shareable_storage.h"

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
  const std::optional<SegmentView> segment = allocator.inspect().FindSegment(address);
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

// `device`: whose memory the stream uses.
c10::cuda::CUDAStream InC10(const GpuSet& gpus, Stream stream, c10::DeviceIndex device) {
  gpus.ForEach([&](const GpuMemory& gpu) {
    if (gpu.device().primary_context() == stream.context) device = gpu.ordinal();
  });
  return c10::cuda::getStreamFromExternal(reinterpret_cast<cudaStream_t>(stream.id), device);
}

bool MayBeTouched(Stream stream, c10::cuda::CUDAStream current) {
  if (stream.id == reinterpret_cast<uint64_t>(current.stream())) return true;
  return stream.lasts() && stream.context == 0;
}

// `current` and those of `users` that are sure to exist, and to be named by their handle in any context.
std::vector<c10::cuda::CUDAStream> LastingStreams(const std::vector<Stream>& users, c10::cuda::CUDAStream current) {
  std::vector<c10::cuda::CUDAStream> lasting = {current};
  for (const Stream user : users) {
    if (!MayBeTouched(user, current)) continue;
    lasting.push_back(
        c10::cuda::getStreamFromExternal(reinterpret_cast<cudaStream_t>(user.id), current.device_index()));
  }
  return lasting;
}

// The host waits for the work of `users` that `lasting` name, which are sure to exist. For the others AwaitShareable
// has waited, unless there may be captures.
void WaitForWork(bool may_be_capturing, const std::vector<Stream>& users,
                 const std::vector<c10::cuda::CUDAStream>& lasting) {
  const bool all_last =
      std::all_of(users.begin(), users.end(), [&](Stream user) { return MayBeTouched(user, lasting.front()); });
  TORCH_CHECK(
      all_last || !may_be_capturing,
      "frugal_alloc cannot share this tensor while a graph may be captured: a stream that the program made has used "
      "it, which may be gone by now. Share it before the capture begins, or while that stream is current");
  for (const c10::cuda::CUDAStream& stream : lasting) C10_CUDA_CHECK(cudaStreamSynchronize(stream.stream()));
}

}  // namespace

void AwaitShareable(TorchAllocator& allocator, const c10::StorageImpl& storage) {
  const void* const data = storage.data();
  GpuMemory* const gpu = allocator.gpus().OwnerOf(data);
  if (gpu == nullptr || !IsMapped(gpu->allocator(), Address(data))) return;
  allocator.routing().WithoutCapture(gpu->ordinal(), [gpu] {
    const c10::cuda::CUDAGuard guard(gpu->ordinal());
    const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
    C10_CUDA_CHECK(cudaDeviceSynchronize());
  });
}

bool MakeShareable(TorchAllocator& allocator, c10::StorageImpl& storage) {
  // A lazy copy becomes a real one here.
  void* const data = storage.mutable_data();
  GpuMemory* const gpu = allocator.gpus().OwnerOf(data);
  if (gpu == nullptr || !IsMapped(gpu->allocator(), Address(data))) return false;
  const std::optional<SegmentView> segment = gpu->allocator().inspect().FindSegment(Address(data));
  TORCH_CHECK(
      !segment.has_value() || !segment->fixed,
      "frugal_alloc cannot share memory of CUDA graphs that is mapped (FRUGAL_ALLOC_CONF=pools:mapped): share a "
      "clone() of the tensor, or set pools:segments");
  const c10::DataPtr& old = storage.data_ptr();
  TORCH_CHECK(
      old.get_deleter() == &TorchAllocator::DeleteBlock && old.get_context() == data,
      "frugal_alloc cannot share this tensor, because its memory belongs to another object (from_blob, DLPack): "
      "share a clone() of it, or the tensor that owns the memory");

  const c10::DeviceIndex device = gpu->ordinal();
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device);
  const std::vector<Stream> users = gpu->allocator().inspect().StreamsOf(Address(data));
  const std::vector<c10::cuda::CUDAStream> lasting = LastingStreams(users, current);
  CheckNotCaptured(lasting);
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  WaitForWork(allocator.routing().MayCapture(device), users, lasting);

  // New memory belongs to the stream that the old belonged to: what that stream does needs no record_stream. One that
  // may be gone gets none, since to allocate for a stream asks the driver about it.
  const bool keeps_its_owner = MayBeTouched(users.front(), current);
  const c10::cuda::CUDAStreamGuard guard(keeps_its_owner ? InC10(allocator.gpus(), users.front(), device) : current);
  const size_t size = storage.nbytes();
  c10::DataPtr moved = allocator.AllocateShareable(std::max<size_t>(size, 1));
  C10_CUDA_CHECK(cudaMemcpyAsync(moved.get(), data, size, cudaMemcpyDeviceToDevice, current.stream()));
  C10_CUDA_CHECK(cudaStreamSynchronize(current.stream()));
  for (size_t i = 1; i < users.size(); ++i) {
    allocator.recordStream(moved, InC10(allocator.gpus(), users[i], device));
  }
  // Another thread may have had a stream read the old memory since AwaitShareable.
  static_cast<void>(gpu->allocator().RecordKnownStreams(Address(data)));
  storage.set_data_ptr_noswap(std::move(moved));
  return true;
}

}  // namespace frugal
