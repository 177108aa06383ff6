#include "simulated_gpu/exports/handle_checks.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "simulated_gpu/machine/thread_state.h"

namespace frugal::sim {
namespace {

// `was` says what the handle stood for. Returns `error` unless the mode is strict.
Error Dead(const char* function, const char* kind, const void* handle, const std::string& was, Error error) {
  if (!TheConfiguration().strict) return error;
  std::fflush(nullptr);
  std::fprintf(stderr, "frugal simulated GPU: %s was given the %s %#llx: %s\n", function, kind,
               static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(handle)), was.c_str());
  _exit(kDeadHandleUsed);
}

Error CheckContext(Context* context, const void* handle, const char* kind, const char* function) {
  if (context == nullptr) return Dead(function, kind, handle, "never a context", Error::kInvalidContext);
  if (!context->is_destroyed()) return Error::kSuccess;
  return Dead(function, kind, handle, context->Name() + ", destroyed", Error::kContextIsDestroyed);
}

Error DeadEvent(const Event* event, const char* function) {
  return Dead(function, "event", event, TheMachine().streams().events().WhatWas(event), Error::kInvalidHandle);
}

}  // namespace

Error FindCurrentContext(const char* function, Context** context) {
  *context = ThisThread().context;
  if (*context == nullptr) return Error::kInvalidContext;
  return CheckContext(*context, *context, "current context", function);
}

Error BindCurrentContext(const char* function, Context** context) {
  ThreadState& thread = ThisThread();
  if (thread.context == nullptr) thread.SetContext(&TheMachine().contexts().primary(thread.gpu));
  return FindCurrentContext(function, context);
}

Error FindContext(const void* handle, const char* function, Context** context) {
  *context = TheMachine().contexts().Find(handle);
  return CheckContext(*context, handle, "context", function);
}

Error FindGreenContext(const void* handle, const char* function, Context** context) {
  *context = TheMachine().contexts().Find(static_cast<const char*>(handle) - 1);
  if (*context != nullptr && !(*context)->is_green()) *context = nullptr;
  return CheckContext(*context, handle, "green context", function);
}

Error FindStream(const void* handle, Context& current, const char* function, Stream** stream) {
  Streams& streams = TheMachine().streams();
  const auto value = reinterpret_cast<uint64_t>(handle);
  *stream = streams.Find(value, current);
  if (*stream == nullptr) return Dead(function, "stream", handle, streams.WhatWas(value), Error::kInvalidHandle);
  return (*stream)->context->is_destroyed() ? Error::kStreamDetached : Error::kSuccess;
}

Error DestroyStream(const void* handle, const char* function) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  if (value <= Streams::kPerThreadHandle) return Error::kInvalidHandle;
  Streams& streams = TheMachine().streams();
  if (streams.Destroy(reinterpret_cast<Stream*>(value)) == Error::kSuccess) return Error::kSuccess;
  return Dead(function, "stream", handle, streams.WhatWas(value), Error::kInvalidHandle);
}

Error CheckEvent(const void* handle, const char* function) {
  const auto* event = static_cast<const Event*>(handle);
  if (!TheConfiguration().strict || TheMachine().streams().events().Knows(event)) return Error::kSuccess;
  return DeadEvent(event, function);
}

Error DestroyEvent(const void* handle, const char* function) {
  auto* event = static_cast<Event*>(const_cast<void*>(handle));
  if (TheMachine().streams().events().Destroy(event) == Error::kSuccess) return Error::kSuccess;
  return DeadEvent(event, function);
}

}  // namespace frugal::sim
