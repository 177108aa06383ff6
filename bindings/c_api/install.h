// Putting our allocator in PyTorch's place, and handing new memory back to native: one state machine.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "allocator/port/units.h"

namespace frugal {

enum class InstallState {
  kAbsent,       // PyTorch knows nothing of us
  kActive,       // new memory is ours
  kPassthrough,  // new memory is native's or another allocator's; we stay to free what we gave out, which lives on
};

// OK, or kFailedPrecondition: one line that says what stands in the way and what to do; PyTorch is untouched then.
// Before CUDA has started, it does not start it. Thread-safe, and while other threads allocate.
//
// The settings in force are those of FRUGAL_ALLOC_CONF when we are installed, changed by `settings` then and in every
// later call; kInvalidArgument, with nothing changed: see ChangeSettings. With FRUGAL_ALLOC=0 it does nothing, and is
// OK.
absl::Status Enable(absl::string_view settings);
// Does nothing when we are absent.
absl::Status Disable();
InstallState CurrentInstallState();
// The settings in force, each as ChangeSettings reads it; those that Enable("") would use while we are absent.
absl::StatusOr<std::string> CurrentSettings();
// One of them. kInvalidArgument: there is no such setting.
absl::StatusOr<std::string> CurrentSetting(absl::string_view key);

// The torch that runs, as major * 100 + minor (211 for 2.11); 0 if it does not say.
int RunningTorchVersion();
// The torch that this library was built for.
int BuiltTorchVersion();

}  // namespace frugal
