// What ctypes calls: one recorded history through the CUDA allocator that c10 has now.
//
// The caller is a process that has a GPU, simulated or real, and libc10 and libc10_cuda loaded, and, where it wants
// another allocator than PyTorch's, has installed that: bindings/frugal_alloc/_replay/worker.py.

#ifndef FRUGAL_BINDINGS_REPLAY_REPLAY_H_
#define FRUGAL_BINDINGS_REPLAY_REPLAY_H_

#include "bindings/replay/request.h"

// The Result as JSON, which stays as it is until the process ends.
//
// Call it once in a process, from one thread: the clock of the simulated GPU never goes back. Does not throw.
extern "C" const char* frugal_replay(const frugal::replay::Request* request);

#endif  // FRUGAL_BINDINGS_REPLAY_REPLAY_H_
