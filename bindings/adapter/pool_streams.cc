#include "bindings/adapter/pool_streams.h"

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>

#include <tuple>

#include "absl/functional/function_ref.h"

namespace frugal {
namespace {

// c10's ids of pool streams, which its headers do not show: (index << 5) | (1 + which priority) << 1 | 1. In the
// libc10_cuda of each torch in tools/torch_versions.txt it was seen to be so (getStreamFromPool).
constexpr c10::StreamId kStreamsOfPool = 32;

c10::StreamId IdInPool(c10::StreamId priority, c10::StreamId index) {
  return index << 5 | (priority + 1) << 1 | c10::StreamId{1};
}

bool AnyOfPools(c10::DeviceIndex device, absl::FunctionRef<bool(cudaStream_t)> is_meant) {
  static const auto range = c10::cuda::CUDAStream::priority_range();
  for (c10::StreamId priority = 0; priority <= std::get<0>(range) - std::get<1>(range); ++priority) {
    for (c10::StreamId index = 0; index < kStreamsOfPool; ++index) {
      const c10::Stream stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::CUDA, device),
                               IdInPool(priority, index));
      if (is_meant(c10::cuda::CUDAStream(stream).stream())) return true;
    }
  }
  return false;
}

}  // namespace

bool IsOfPool(cudaStream_t handle, c10::DeviceIndex device) {
  return AnyOfPools(device, [handle](cudaStream_t stream) { return stream == handle; });
}

bool IsCaptured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const bool is_known = cudaStreamIsCapturing(stream, &status) == cudaSuccess;
  if (!is_known) static_cast<void>(cudaGetLastError());
  return !is_known || status != cudaStreamCaptureStatusNone;
}

bool HasBusyStreamInPool(c10::DeviceIndex device) {
  // To ask a stream ends captures of others, begun by any thread.
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  return AnyOfPools(device, [](cudaStream_t stream) {
    // One that was never handed out is not there.
    if (stream == nullptr) return false;
    if (IsCaptured(stream)) return true;
    const bool is_idle = cudaStreamQuery(stream) == cudaSuccess;
    if (!is_idle) static_cast<void>(cudaGetLastError());
    return !is_idle;
  });
}

}  // namespace frugal
