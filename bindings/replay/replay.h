// The C ABI of the replay: one recorded history through the CUDA allocator that c10 has now.
//
// The caller is a process that runs on the simulated GPU, has libc10 and libc10_cuda loaded and, where it
// wants another allocator than PyTorch's, has installed that. _replay_worker.py is that process; its
// Request and Result mirror the two structs.

#ifndef FRUGAL_BINDINGS_REPLAY_REPLAY_H_
#define FRUGAL_BINDINGS_REPLAY_REPLAY_H_

#include <stdint.h>

#include "bindings/replay/history.h"

extern "C" {

// Kinds of driver call in the order of frugal_replay_result.driver_calls; names as in cuda/simulated/control.h.
#define FRUGAL_REPLAY_CALL_KINDS                                                                              \
  "create", "map", "set_access", "unmap", "release", "malloc", "free", "sync", "event_record", "event_query", \
      "stream_wait"
#define FRUGAL_REPLAY_CALL_KIND_COUNT 11

struct frugal_replay_request {
  const frugal::replay::Event* events;
  uint64_t event_count;
  // The first so many events place what was allocated before the recording began; their time is not counted.
  uint64_t initial_count;
  uint32_t allocation_count;
  uint32_t stream_count;
  // The first pass is the history. Each further one repeats it on the warm cache, for ns_per_pair.
  uint32_t passes;
};

struct frugal_replay_result {
  // All of these are of the first pass, up to where it ended.
  uint64_t failed_at;            // with FRUGAL_REPLAY_OUT_OF_MEMORY: the number of the event that could not be served
  uint64_t peak_reserved_bytes;  // most physical memory of the GPU that was in use at a time
  uint64_t driver_calls[FRUGAL_REPLAY_CALL_KIND_COUNT];
  uint64_t driver_ns;
  // Host time of one allocation and its free in the fastest warm pass; negative without one.
  double ns_per_pair;
  char message[1024];  // with any other outcome than completion
};

enum {
  FRUGAL_REPLAY_COMPLETED = 0,
  FRUGAL_REPLAY_OUT_OF_MEMORY = 1,
  // The history is not consistent, the process is not on the simulated GPU, or the allocator failed.
  FRUGAL_REPLAY_FAILED = 2,
};

// Call it once in a process, from one thread: the clock of the simulated GPU never goes back.
int frugal_replay(const frugal_replay_request* request, frugal_replay_result* result);

}  // extern "C"

#endif  // FRUGAL_BINDINGS_REPLAY_REPLAY_H_
