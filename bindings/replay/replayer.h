// Replays a history through the CUDA allocator that c10 has now, on the simulated GPU.

#ifndef FRUGAL_BINDINGS_REPLAY_REPLAYER_H_
#define FRUGAL_BINDINGS_REPLAY_REPLAYER_H_

#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <span>
#include <vector>

#include "bindings/replay/history.h"
#include "bindings/replay/simulated_gpu.h"

namespace frugal::replay {

// The history is played against the simulated clock: event n of a pass happens at n nanoseconds, so a
// late stream is done with a block exactly at the event that the recording says.
//
// Every call into the allocator may throw what the allocator throws (c10::OutOfMemoryError, c10::Error).
class Replayer {
 public:
  // REQUIRES: events that pass Validate(); `events` outlives this.
  Replayer(std::span<const Event> events, uint64_t initial_count, uint32_t allocation_count, uint32_t stream_count,
           const SimulatedGpu& gpu);

  // Plays the history once and returns the CPU time of this thread, in ns, from the end of the initial
  // allocations to the last event.
  double Play();
  // Frees all that is still allocated and lets the late streams finish: the end of a pass.
  void FreeAll();

  // The event that Play() was at when it returned or threw.
  uint64_t position() const { return position_; }

 private:
  void Apply(const Event& event);
  void UseLate(const Event& event);

  const std::span<const Event> events_;
  const uint64_t initial_count_;
  const SimulatedGpu gpu_;
  // Whether some free is late: only then does the time matter.
  bool has_late_frees_ = false;
  std::vector<c10::cuda::CUDAStream> streams_;
  std::vector<void*> allocations_;
  uint64_t position_ = 0;
  // When the pass began, on the simulated clock.
  uint64_t start_ns_ = 0;
};

// Whether `events` is a history: every free is of an allocation made before and not yet freed, and all
// numbers are in range.
bool Validate(std::span<const Event> events, uint64_t initial_count, uint32_t allocation_count, uint32_t stream_count);

}  // namespace frugal::replay

#endif  // FRUGAL_BINDINGS_REPLAY_REPLAYER_H_
