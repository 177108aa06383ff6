#include "bindings/replay/replayer.h"

#include <c10/core/DeviceType.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <string>

namespace frugal::replay {
namespace {

using c10::cuda::CUDACachingAllocator::raw_alloc_with_stream;
using c10::cuda::CUDACachingAllocator::raw_delete;

constexpr c10::DeviceIndex kDevice = 0;

// Of PyTorch's pool, as the program's own were, as far as that goes.
c10::cuda::CUDAStream MakeStream(uint32_t number) {
  constexpr uint32_t kPool = 32;
  if (number == 0) return c10::cuda::getDefaultCUDAStream(kDevice);
  if (number <= kPool) return c10::cuda::getStreamFromPool(/*isHighPriority=*/false, kDevice);
  cudaStream_t stream = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return c10::cuda::getStreamFromExternal(stream, kDevice);
}

}  // namespace

Replayer::Replayer(std::span<const Event> events, uint64_t initial_count, uint32_t allocation_count,
                   uint32_t stream_count, uint32_t stream_lag, Gpu& gpu)
    : events_(events),
      initial_count_(initial_count),
      gpu_(gpu),
      stream_lag_(stream_lag),
      has_time_(stream_lag > 0),
      checks_order_(gpu.ChecksOrder()),
      allocations_(allocation_count, nullptr),
      made_by_(stream_lag > 0 || checks_order_ ? allocation_count : 0) {
  for (const Event& event : events) has_time_ |= event.ready > 0;
  if (checks_order_) C10_CUDA_CHECK(cudaEventCreateWithFlags(&written_, cudaEventDisableTiming));
  streams_.reserve(stream_count);
  for (uint32_t number = 0; number < stream_count; ++number) streams_.push_back(MakeStream(number));
}

double Replayer::Play(Watcher* watcher) {
  double begin_ns = gpu_.SpentNs();
  for (position_ = 0; position_ < events_.size(); ++position_) {
    if (position_ == initial_count_) begin_ns = gpu_.SpentNs();
    if (has_time_) gpu_.SetClock(start_ns_ + position_);
    if (watcher != nullptr) watcher->Before(position_);
    Apply(events_[position_]);
    if (watcher != nullptr) watcher->After(position_);
  }
  return gpu_.SpentNs() - begin_ns;
}

void Replayer::FreeAll() {
  for (void*& allocation : allocations_) {
    if (allocation != nullptr) raw_delete(allocation);
    allocation = nullptr;
  }
  start_ns_ += events_.size() + stream_lag_ + 1;
  if (has_time_) gpu_.SetClock(start_ns_);
}

void Replayer::Apply(const Event& event) {
  void*& allocation = allocations_[event.allocation];
  if (event.operation == Operation::kAllocate) {
    gpu_.CallBegins();
    c10::cuda::setCurrentCUDAStream(streams_[event.stream]);
    allocation = raw_alloc_with_stream(event.size, streams_[event.stream].stream());
    gpu_.CallEnds();
    if (!made_by_.empty()) made_by_[event.allocation] = &event;
    if (checks_order_) Write(event);
    if (stream_lag_ > 0) Work(streams_[event.stream]);
    return;
  }
  if (checks_order_) ReadLast(event);
  if (stream_lag_ > 0) Work(streams_[made_by_[event.allocation]->stream]);
  if (event.ready > 0) UseLate(event);
  gpu_.CallBegins();
  raw_delete(allocation);
  gpu_.CallEnds();
  allocation = nullptr;
}

void Replayer::UseLate(const Event& event) {
  auto* allocator = c10::cuda::CUDACachingAllocator::get();
  const c10::cuda::CUDAStream stream = streams_[event.late_stream];
  gpu_.KeepBusy(stream.stream(), start_ns_ + event.ready);
  // The allocator asks for the DataPtr of a tensor; the context of one of its own is the pointer itself.
  void* allocation = allocations_[event.allocation];
  if (checks_order_) ReadLate(event);
  c10::DataPtr data(allocation, allocation, allocator->raw_deleter(), c10::Device(c10::DeviceType::CUDA, kDevice));
  allocator->recordStream(data, stream);
  data.release_context();
}

void Replayer::Write(const Event& event) {
  const std::string name = "event " + std::to_string(position_) + ": allocated";
  gpu_.Touch(streams_[event.stream].stream(), allocations_[event.allocation], event.size, /*writes=*/true, name);
}

void Replayer::ReadLast(const Event& event) {
  const Event& made = *made_by_[event.allocation];
  const std::string name = "event " + std::to_string(position_) + ": last use";
  gpu_.Touch(streams_[made.stream].stream(), allocations_[event.allocation], made.size, /*writes=*/false, name);
}

void Replayer::ReadLate(const Event& event) {
  const Event& made = *made_by_[event.allocation];
  const cudaStream_t late = streams_[event.late_stream].stream();
  C10_CUDA_CHECK(cudaEventRecord(written_, streams_[made.stream].stream()));
  C10_CUDA_CHECK(cudaStreamWaitEvent(late, written_, 0));
  const std::string name = "event " + std::to_string(position_) + ": use by a late stream";
  gpu_.Touch(late, allocations_[event.allocation], made.size, /*writes=*/false, name);
}

void Replayer::Work(const c10::cuda::CUDAStream& stream) {
  gpu_.KeepBusy(stream.stream(), start_ns_ + position_ + stream_lag_);
}

}  // namespace frugal::replay
