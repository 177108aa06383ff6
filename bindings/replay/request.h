// What a replay is asked, and what it answers. bindings/frugal_alloc/_planning/replay/worker.py has Request once more.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bindings/replay/history.h"

namespace frugal::replay {

// The kinds of driver call that are reported, in the order of Costs::driver_calls; named as in
// simulated_gpu/machine/control.h.
inline constexpr std::array kCallKinds = {"create", "map",  "set_access",   "unmap",       "release",    "malloc",
                                          "free",   "sync", "event_record", "event_query", "stream_wait"};

struct Request {
  const Event* events;
  uint64_t event_count;
  // The first so many events place what was allocated before the recording began; their time is not counted.
  uint64_t initial_count;
  uint32_t allocation_count;
  uint32_t stream_count;
  // The first pass is the history. Each further one repeats it on the warm cache, for ns_per_pair.
  uint32_t passes;
  // Each event of a stream gives it work that lasts for so many events; 0: streams only work for late frees.
  uint32_t stream_lag;
  // The event at which Result::steady begins, counted on through all passes: event_count is the second pass's first.
  uint64_t steady_from;
  // The most that the allocator may hold, in bytes, of what is free but for 1 GiB; 0: all that the GPU has.
  uint64_t limit_bytes;
  // Not 0: as on a real GPU, by the wall's clock, also where the GPU is simulated.
  uint32_t real_time;
};

enum class Outcome {
  kCompleted,
  kOutOfMemory,
  // The history is not consistent, there is no GPU, or the allocator failed.
  kFailed,
};

// What a part of the history cost.
struct Costs {
  // On a real GPU, and with an allocator that is not ours, only `malloc` and `free` are known: how often it took memory
  // from the device, and gave some back.
  uint64_t driver_calls[kCallKinds.size()];
  uint64_t driver_ns;
  // The wall's, of all calls into the allocator. 0 on the simulated GPU, where a driver call takes no time.
  uint64_t host_ns;
};

// One counter each.
inline Costs operator-(const Costs& end, const Costs& begin) {
  Costs difference;
  difference.driver_ns = end.driver_ns - begin.driver_ns;
  difference.host_ns = end.host_ns - begin.host_ns;
  for (size_t kind = 0; kind < kCallKinds.size(); ++kind) {
    difference.driver_calls[kind] = end.driver_calls[kind] - begin.driver_calls[kind];
  }
  return difference;
}

struct Result {
  Outcome outcome = Outcome::kCompleted;
  // Of the first pass, up to where it ended:
  uint64_t failed_at = 0;            // with kOutOfMemory: number of the event that could not be served
  uint64_t peak_reserved_bytes = 0;  // most physical memory of the GPU that the allocator held at a time
  uint64_t peak_reserved_at = 0;     // the event at which it was first reached
  uint64_t driver_ns_to_peak = 0;    // up to the end of that event
  Costs costs = {};
  // From `steady_from` to the end of the pass that it lies in; without allocations if that pass was not played to the
  // end.
  Costs steady = {};
  uint64_t steady_allocations = 0;
  // Host time of one allocation and its free in the fastest warm pass, on a real GPU the wall's; none without one.
  std::optional<double> ns_per_pair;
  // Of all passes, where the simulated GPU checks the order of work; else 0. A violation is kFailed.
  uint64_t order_accesses = 0;
  std::string message;  // with any outcome but kCompleted
};

// As JSON: an object with the names above. An outcome is a text, and driver calls are an object by kind.
std::string ToJson(const Result& result);

}  // namespace frugal::replay
