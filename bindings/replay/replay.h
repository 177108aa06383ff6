// What ctypes calls: one recorded history through the CUDA allocator that c10 has now.
//
// The caller is a process that has a GPU, simulated or real, and libc10 and libc10_cuda loaded, and, where it wants
// another allocator than PyTorch's, has installed that: bindings/frugal_alloc/_replay/worker.py.

#ifndef FRUGAL_BINDINGS_REPLAY_REPLAY_H_
#define FRUGAL_BINDINGS_REPLAY_REPLAY_H_

#include "bindings/replay/request.h"

// Sample n of N is the most physical memory in use from event n / N of the history up to the next sample, in bytes.
//
// Call it once in a process, from one thread: the clock of the simulated GPU never goes back. Does not throw.
extern "C" frugal::replay::Outcome frugal_replay(const frugal::replay::Request* request,
                                                 frugal::replay::Result* result);

#endif  // FRUGAL_BINDINGS_REPLAY_REPLAY_H_
