// This process among those that share its GPUs.

#pragma once

#include "bindings/adapter/gpu_set.h"

namespace frugal {

// From the first GPU on this process gives back memory of `gpus`, which is never destroyed, that it does not use when
// another asks for it (grants.h), and asks others before it runs out (neighbours.h). Called once, before a GPU is open.
void MakeLiveNeighbours(GpuSet& gpus);
// Whether it does either, which it does at first. REQUIRES: MakeLiveNeighbours was called.
void SetLiveNeighbours(bool is_wanted);
// There is a GPU. REQUIRES: as above.
void BeginLiveNeighbours();

}  // namespace frugal
