// Which GPUs may reach which: asked of the CUDA runtime, since PyTorch tells its allocator only once.

#ifndef FRUGAL_BINDINGS_PEER_ACCESS_H_
#define FRUGAL_BINDINGS_PEER_ACCESS_H_

#include "bindings/gpu_memory.h"

namespace frugal {

// Tells `gpus` of the peers that PyTorch enabled before we were installed.
void CopyPeerAccess(GpuSet& gpus);

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_PEER_ACCESS_H_
