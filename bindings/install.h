// Putting our allocator in PyTorch's place, and handing new memory back to native: one state machine.

#ifndef FRUGAL_BINDINGS_INSTALL_H_
#define FRUGAL_BINDINGS_INSTALL_H_

#include "absl/status/status.h"
#include "allocator/units.h"

namespace frugal {

enum class InstallState {
  kAbsent,       // PyTorch knows nothing of us
  kActive,       // new memory is ours
  kPassthrough,  // new memory is native's; we stay to free what we gave out, which lives on
};

// OK, or kFailedPrecondition: one line that says what stands in the way and what to do; PyTorch is untouched then.
// Before CUDA has started, it does not start it. Thread-safe, and while other threads allocate.
absl::Status Enable();
// Does nothing when we are absent.
absl::Status Disable();
InstallState CurrentInstallState();

// The torch that runs, as major * 100 + minor (211 for 2.11); 0 if it does not say.
int RunningTorchVersion();
// The torch that this library was built for.
int BuiltTorchVersion();

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_INSTALL_H_
