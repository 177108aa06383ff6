#include "bindings/adapter/native_forwarder.h"

#include "bindings/settings/pytorch_settings.h"

namespace frugal {

c10::DeleterFnPtr NativeForwarder::CacheDeleter() const {
  c10::DeleterFnPtr deleter = cache_deleter_.load(std::memory_order_relaxed);
  if (deleter == nullptr && native_.isEnabled() && !IsCachingTurnedOff()) {
    deleter = native_.raw_deleter();
    cache_deleter_.store(deleter, std::memory_order_relaxed);
  }
  return deleter;
}

void NativeForwarder::RecordHistory(bool enabled, CreateContextFn create_context, size_t max_entries,
                                    RecordContext when, bool clear,
                                    [[maybe_unused]] const std::vector<std::string>& skip_actions) {
#if FRUGAL_TORCH_MINOR >= 11
  native_.recordHistory(enabled, create_context, max_entries, when, clear, skip_actions);
#else
  native_.recordHistory(enabled, create_context, max_entries, when, clear);
#endif
}

ContextPointer NativeForwarder::ContextForPointer([[maybe_unused]] const void* pointer) {
#if FRUGAL_TORCH_MINOR >= 12
  return native_.getContextForPointer(pointer);
#else
  return nullptr;
#endif
}

void NativeForwarder::AnnotateMemory([[maybe_unused]] const void* pointer,
                                     [[maybe_unused]] const std::string& metadata) {
#if FRUGAL_TORCH_MINOR >= 14
  native_.annotateMemory(pointer, metadata);
#endif
}

void NativeForwarder::SetUseOnOutOfMemory(c10::DeviceIndex device, MempoolId_t pool, [[maybe_unused]] bool value) {
#if FRUGAL_TORCH_MINOR >= 11
  native_.setUseOnOOM(device, pool, value);
#else
  native_.setUseOnOOM(device, pool);
#endif
}

caching::CheckpointDelta NativeForwarder::setCheckpointPoolState(c10::DeviceIndex device,
                                                                 std::shared_ptr<caching::AllocatorState> state) {
  caching::CheckpointDelta delta = native_.setCheckpointPoolState(device, std::move(state));
  for (c10::DataPtr& data : delta.dataptrs_allocd) data = Adopt(std::move(data));
  return delta;
}

}  // namespace frugal
