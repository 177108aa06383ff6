// Replays a history through the CUDA allocator that c10 has now, on a GPU.

#pragma once

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "bindings/replay/gpu.h"
#include "bindings/replay/history.h"
#include "bindings/replay/watcher.h"

namespace frugal::replay {

// Where time is simulated, the history is played against that clock: event n of a pass happens at n nanoseconds, so a
// late stream is done with a block exactly at the event that the recording says. With a stream lag, every
// allocation and free also gives its stream work that lasts for so many events more, as a host does that runs ahead.
//
// Every call into the allocator may throw what the allocator throws (c10::OutOfMemoryError, c10::Error).
class Replayer {
 public:
  // REQUIRES: events that pass Validate(); `events` and `gpu` outlive this.
  Replayer(std::span<const Event> events, uint64_t initial_count, uint32_t allocation_count, uint32_t stream_count,
           uint32_t stream_lag, Gpu& gpu);

  // Plays the history once and returns what it took, in ns, from the end of the initial
  // allocations to the last event. `watcher` may be null.
  double Play(Watcher* watcher);
  // Frees all that is still allocated and lets the late streams finish: the end of a pass.
  void FreeAll();

  // The event that Play() was at when it returned or threw.
  uint64_t position() const { return position_; }

 private:
  void Apply(const Event& event);
  void UseLate(const Event& event);
  // For the order checker, if there is one. What is allocated is written, and read until it is freed; a late stream
  // waits for the writer before it reads, as a correct program does.
  void Write(const Event& event);
  void ReadLast(const Event& event);
  void ReadLate(const Event& event);
  // Kernels that the stream will be done with when the lag is over.
  void Work(const c10::cuda::CUDAStream& stream);

  const std::span<const Event> events_;
  const uint64_t initial_count_;
  Gpu& gpu_;
  const uint32_t stream_lag_;
  // Whether a stream is ever busy: only then does the time matter.
  bool has_time_;
  const bool checks_order_;
  std::vector<c10::cuda::CUDAStream> streams_;
  std::vector<void*> allocations_;
  // By allocation: the event that made it.
  std::vector<const Event*> made_by_;
  // With an order checker: what a late stream waits for. It lives as long as the process.
  cudaEvent_t written_ = nullptr;
  uint64_t position_ = 0;
  // When the pass began, on the simulated clock.
  uint64_t start_ns_ = 0;
};

}  // namespace frugal::replay
