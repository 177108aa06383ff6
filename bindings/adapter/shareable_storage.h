// Tensors that other processes are to see.

#pragma once

#include <c10/core/StorageImpl.h>

#include "bindings/adapter/torch_allocator.h"

namespace frugal {

// Moves the storage's bytes into a segment of cudaMalloc if they lie in mapped memory of ours, and returns whether it
// did. Every tensor on the storage follows; the streams that were recorded for the old block are recorded for the new
// one.
//
// One handle of cudaMalloc names all of the new memory to another process. Exporting mapped memory where it is would
// take a file descriptor for each handle (a gigabyte in those of 2 MiB passes the usual limit on open files) and
// pidfd_getfd in the process that opens it, which ordinary containers refuse. PyTorch moves a CPU tensor likewise when
// it is first shared.
//
// The host waits for the streams that are known to use the memory and for the copy: the new memory must be complete
// before any stream can come to read it. The old memory is handed on only when every stream has passed that has ever
// been given memory. Nobody can tell what else remembers the old address: a graph that was captured with it, a pointer
// handed to another library.
//
// Throws c10::Error, or c10::OutOfMemoryError if there is no room for both: the storage is as it was.
// REQUIRES: AwaitShareable has returned, and no other thread is about to write to the storage; what it writes meanwhile
// may be lost.
bool MakeShareable(TorchAllocator& allocator, c10::StorageImpl& storage);

// The host waits for all work of the GPU that MakeShareable would move the storage's bytes on, since work of any stream
// may write to them: a collective's, say. Long, and so a call of its own that needs no lock of the interpreter's: the
// work may wait for other threads. Does not wait while memory pools are open, which captures may be behind.
// Throws c10::Error.
void AwaitShareable(TorchAllocator& allocator, const c10::StorageImpl& storage);

}  // namespace frugal
