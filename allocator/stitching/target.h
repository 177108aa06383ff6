// The device's part of a stitch.

#pragma once

#include "absl/status/status.h"
#include "allocator/stitching/handle_table.h"
#include "allocator/stitching/stitch_plan.h"

namespace frugal {

// Creates the handles that the plan lacks, and maps all at its target. On an error nothing of it is left.
absl::Status MakeTarget(HandleTable& handles, StitchPlan& plan);

}  // namespace frugal
