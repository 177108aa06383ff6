// Which process a rank is, so that others can tell when it has ended.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_PROCESS_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_PROCESS_H_

#include <cstdint>

namespace frugal::sim::nccl {

// A process's number is given to others after its end; together with when it began it is its own. A lock of the
// kernel's on the file would tell as much, but one that a forked worker of the rank would keep alive.
struct Process {
  int64_t pid = 0;
  uint64_t began = 0;  // In the kernel's ticks since the host's start.

  static Process This();
  // False as well for one that has ended and whose parent has not asked how.
  bool IsAlive() const;
};

}  // namespace frugal::sim::nccl

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_PROCESS_H_
