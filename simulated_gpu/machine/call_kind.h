// The kinds of driver call that are counted, that have a modelled cost and that a fault plan can make fail.

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace frugal::sim {

enum class CallKind {
  kCreate,
  kMap,
  kSetAccess,
  kUnmap,
  kRelease,
  kReserve,
  kUnreserve,
  kMalloc,
  kFree,
  kSync,  // The host waited for a stream, an event or the device.
  kEventRecord,
  kEventQuery,
  kStreamWait,
  kLaunch,
  kMemoryInfo,    // How much memory is free.
  kEventCreate,   // The first half of making an event; the second is to record it.
  kCaptureQuery,  // Whether a stream is being captured.
  kContext,       // The context of a GPU or a thread is asked for or set; not set back, which always can be.
  kIpc,           // Memory gets a name for other processes, or is opened or closed by such a name.
  kPeerAccess,    // A GPU is let into another's memory.
  // Not a call of its own: an unmap while a stream of the GPU had work outstanding. Whether that work touches the
  // range is not known, so this is a hint, not an error; a fault plan never matches it.
  kUnmapWhileBusy,
};

// In the order of CallKind; the names of control.h.
inline constexpr std::array<std::string_view, 21> kCallKindNames = {
    "create",      "map",          "set_access",    "unmap",        "release",     "reserve",     "unreserve",
    "malloc",      "free",         "sync",          "event_record", "event_query", "stream_wait", "launch",
    "memory_info", "event_create", "capture_query", "context",      "ipc",         "peer_access", "unmap_while_busy"};

constexpr std::optional<CallKind> CallKindFromName(std::string_view name) {
  for (size_t i = 0; i < kCallKindNames.size(); ++i) {
    if (kCallKindNames[i] == name) return static_cast<CallKind>(i);
  }
  return std::nullopt;
}

}  // namespace frugal::sim
