#include "bindings/adapter/expandable_segments.h"

#include <optional>

#include "bindings/settings/pytorch_settings.h"

namespace frugal {

std::string ExpandableSegments::ForNative(absl::string_view settings) {
  const std::optional<bool> value = ReadExpandableSegments(settings);
  if (!value.has_value()) return {settings.data(), settings.size()};
  absl::MutexLock lock(&mutex_);
  bool native_gets = *value;
  if (!routing_.passthrough()) {
    if (!routing_.cuda_malloc()) native_had_ = entered_ > 0 ? native_gets_ : OfNative().expandable_segments;
    native_gets = *value && native_had_;
  }
  if (entered_ == 0) return WithExpandableSegments(settings, native_gets);
  native_gets_ = native_gets;
  return WithExpandableSegments(settings, false);
}

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

void ExpandableSegments::Enter() {
  absl::MutexLock lock(&mutex_);
  if (entered_ == 0) native_gets_ = OfNative().expandable_segments;
  if (entered_ == 0 && native_gets_) TellNative(false);
  if (routing_.EnterCudaMalloc()) ++entered_;
}

void ExpandableSegments::Leave() {
  absl::MutexLock lock(&mutex_);
  if (!routing_.LeaveCudaMalloc() || --entered_ > 0 || !native_gets_) return;
  TellNative(true);
}

void ExpandableSegments::TellNative(bool value) const {
  // Anew with all else, since what a text leaves out goes back to its default.
  caching::setAllocatorSettings(WithExpandableSegments(OfNative().last_allocator_settings, value));
}

}  // namespace frugal
