// What this process publishes of its memory while it runs.

#pragma once

#include "bindings/adapter/gpu_set.h"
#include "bindings/publishing/publisher.h"

namespace frugal {

// From the first GPU on this process answers whoever of its user asks about `gpus`, which is never destroyed, with the
// document of live_document.h, and is a neighbour of others (live_neighbours.h). Called once, before a GPU is open.
void MakeLivePublisher(GpuSet& gpus);
// Whether it does, which it does at first. REQUIRES: MakeLivePublisher was called.
void SetLivePublishing(bool is_wanted);
// null before that. Never destroyed.
Publisher* LivePublisher();

}  // namespace frugal
