// How long each driver call would take on a real GPU: accounting only, nothing waits for it. The table and where its
// figures come from are in docs/simulated_gpu.md.

#ifndef FRUGAL_CUDA_SIMULATED_LATENCY_MODEL_H_
#define FRUGAL_CUDA_SIMULATED_LATENCY_MODEL_H_

#include "allocator/units.h"
#include "cuda/simulated/clock.h"

namespace frugal::sim {

struct LatencyModel {
  static constexpr Nanoseconds Create(Bytes size) { return Microseconds(25) + PerMebibyte(size, 2); }
  static constexpr Nanoseconds Map() { return Microseconds(2); }
  // One contiguous range, however many handles it has.
  static constexpr Nanoseconds SetAccess() { return Microseconds(37); }
  static constexpr Nanoseconds Unmap(int64_t handles) { return Microseconds(30) * handles; }
  static constexpr Nanoseconds Release() { return Microseconds(23); }
  static constexpr Nanoseconds Reserve() { return Microseconds(5); }
  static constexpr Nanoseconds Unreserve() { return Microseconds(5); }
  static constexpr Nanoseconds Malloc(Bytes size) { return Microseconds(100) + PerMebibyte(size, 2); }
  // The wait for the device that comes with it depends on the work, not on the driver, and is not in the model.
  static constexpr Nanoseconds Free() { return Microseconds(200); }
  static constexpr Nanoseconds EventRecord() { return Microseconds(1); }
  static constexpr Nanoseconds EventQuery() { return Nanoseconds(500); }
  static constexpr Nanoseconds StreamWait() { return Microseconds(1); }
  // Waits and launches are the program's own work, not the allocator's, and questions that the driver answers from its
  // own books take next to nothing: counted, without a cost.
  static constexpr Nanoseconds Uncharged() { return Nanoseconds(0); }

 private:
  static constexpr Nanoseconds Microseconds(int64_t n) { return Nanoseconds(n * 1000); }
  static constexpr Nanoseconds PerMebibyte(Bytes size, int64_t microseconds) {
    return Nanoseconds(static_cast<int64_t>(static_cast<double>(size.count()) / MiB(1).count() *
                                            static_cast<double>(microseconds) * 1000.0));
  }
};

}  // namespace frugal::sim

#endif  // FRUGAL_CUDA_SIMULATED_LATENCY_MODEL_H_
