#include "bindings/adapter/expandable_segments.h"

#include <optional>

#include "bindings/settings/pytorch_settings.h"

namespace frugal {

bool ExpandableSegments::Follow(absl::string_view settings) {
  const std::optional<bool> value = ReadExpandableSegments(settings);
  if (value.has_value()) routing_.SetCudaMalloc(!*value);
  return routing_.cuda_malloc();
}

bool ExpandableSegments::MapsMemory() const {
  if (routing_.AllGoesToNative() || routing_.Kind() == MemoryKind::kSegment) return false;
  // What is not known yet most likely can.
  bool is_open = false;
  bool can_map = false;
  gpus_.ForEach([&](const GpuMemory& gpu) {
    is_open = true;
    can_map |= gpu.device().HasVirtualMemory();
  });
  return can_map || !is_open;
}

std::string ExpandableSegments::Shown(absl::string_view settings) const {
  if (MapsMemory()) return WithExpandableSegments(settings, true);
  return {settings.data(), settings.size()};
}

void ExpandableSegments::ShowIn(caching::AllocatorConfigInfo& native) const {
  if (!MapsMemory()) return;
  native.expandable_segments = true;
  native.last_allocator_settings = WithExpandableSegments(native.last_allocator_settings, true);
}

}  // namespace frugal
