// What ctypes calls: one recorded history through the CUDA allocator that c10 has now.
//
// The caller is a process that runs on the simulated GPU, has libc10 and libc10_cuda loaded and, where it wants another
// allocator than PyTorch's, has installed that: bindings/frugal_alloc/_replay_worker.py, whose Request and Result
// mirror the two structs.

#ifndef FRUGAL_BINDINGS_REPLAY_REPLAY_H_
#define FRUGAL_BINDINGS_REPLAY_REPLAY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "bindings/replay/history.h"

namespace frugal::replay {

// The kinds of driver call that are reported, in the order of Result::driver_calls; named as in
// cuda/simulated/control.h.
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
};

enum class Outcome : int {
  kCompleted = 0,
  kOutOfMemory = 1,
  // The history is not consistent, the process is not on the simulated GPU, or the allocator failed.
  kFailed = 2,
};

struct Result {
  // All but the last two are of the first pass, up to where it ended.
  uint64_t failed_at;            // with kOutOfMemory: number of the event that could not be served
  uint64_t peak_reserved_bytes;  // most physical memory of the GPU that was in use at a time
  uint64_t driver_calls[kCallKinds.size()];
  uint64_t driver_ns;
  // Host time of one allocation and its free in the fastest warm pass; negative without one.
  double ns_per_pair;
  char message[1024];  // with any outcome but kCompleted
};

}  // namespace frugal::replay

// Call it once in a process, from one thread: the clock of the simulated GPU never goes back. Does not throw.
extern "C" frugal::replay::Outcome frugal_replay(const frugal::replay::Request* request,
                                                 frugal::replay::Result* result);

#endif  // FRUGAL_BINDINGS_REPLAY_REPLAY_H_
