// Which GPU may reach which memory, as the driver says it, without changing that.

#pragma once

#include "absl/status/statusor.h"
#include "allocator/port/units.h"

namespace frugal {

// Whether kernels of the GPU that CUDA numbers `ordinal` may read and write the memory at `address`, which may be
// another GPU's. Makes the GPU's primary context current for the time of the question, and the context itself if there
// is none yet. An error: the driver does not say (before CUDA 11.2 it does not know the question).
absl::StatusOr<bool> MayReach(int ordinal, Address address);

}  // namespace frugal
