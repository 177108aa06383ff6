// The one machine of a process, which libcuda.so.1 holds and the CUDA runtimes share.

#pragma once

#include <cstddef>

#include "simulated_gpu/machine/machine.h"

namespace frugal::sim {

// Made at the first call, with the GPUs that CUDA_VISIBLE_DEVICES then names, and never destroyed: programs call CUDA
// while they exit, too.
Machine& TheMachine();

// The machine if it was made already, else nullptr: for those that look on and must not settle which GPUs are seen.
Machine* TheMachineIfMade();

// What it is, or will be, like.
const Configuration& TheConfiguration();

// A C size; beyond what any GPU has, a size that is still too large.
inline Bytes ToBytes(size_t size) {
  constexpr size_t kTooLarge = size_t{1} << 62;
  return Bytes(static_cast<int64_t>(size < kTooLarge ? size : kTooLarge));
}

// For a function that has only this to answer.
template <typename Into, typename Value>
Error Give(Into* into, Value value) {
  *into = value;
  return Error::kSuccess;
}

}  // namespace frugal::sim
