// What the user is told when we serve a GPU's requests no more, although memory is not out.

#ifndef FRUGAL_BINDINGS_TORCH_REFUSAL_H_
#define FRUGAL_BINDINGS_TORCH_REFUSAL_H_

#include "absl/status/status.h"
#include "bindings/settings/settings.h"
#include "bindings/torch/gpu_memory.h"

namespace frugal {

// To be called when GpuMemory::NoteRefusal says so: warns why memory of the GPU is native's from now on. `settings` are
// those in force.
void TellOfRefusal(GpuMemory& gpu, const absl::Status& status, const Settings& settings);

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_TORCH_REFUSAL_H_
