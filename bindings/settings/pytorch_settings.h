// PyTorch's own settings of its allocator (PYTORCH_ALLOC_CONF), as far as they do not hold for us.

#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace frugal {

// What the environment says, as PyTorch reads it; "" if nothing.
std::string PyTorchSettingsOfEnvironment();

// One line that names the settings in `text` that we do not follow, each with the reason; "" if there are none. Each is
// named once in the life of the process. Those that we follow: backend (native, or we refuse),
// expandable_segments (our memory is as mapped; ExpandableSegments follows it in the middle of a run),
// roundup_power2_divisions, per_process_memory_fraction, throw_on_cudamalloc_oom (we always look before we take
// memory), and all of pinned memory, which is not ours. Thread-safe.
std::string UnfollowedSettings(absl::string_view text);

// What `text` says of expandable_segments; nullopt: nothing that PyTorch takes.
std::optional<bool> ReadExpandableSegments(absl::string_view text);
// `text`, which says this of it.
std::string WithExpandableSegments(absl::string_view text, bool value);

// PYTORCH_NO_CUDA_MEMORY_CACHING: every tensor is to have a cudaMalloc of its own, which native does.
bool IsCachingTurnedOff();

}  // namespace frugal
