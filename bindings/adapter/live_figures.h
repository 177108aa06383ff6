// What this process tells of its memory while it runs.

#ifndef FRUGAL_BINDINGS_ADAPTER_LIVE_FIGURES_H_
#define FRUGAL_BINDINGS_ADAPTER_LIVE_FIGURES_H_

#include <string>

#include "bindings/adapter/gpu_set.h"

namespace frugal {

// The simulated machine that this process shares with others, as its environment says; "": none.
std::string SimulatedNode();
// The document of live_document.h as of now. Waits for locks of the allocators, and asks the driver how much memory is
// free. May throw what PyTorch's allocator throws.
std::string DescribeLive(const GpuSet& gpus, const std::string& node);

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_ADAPTER_LIVE_FIGURES_H_
