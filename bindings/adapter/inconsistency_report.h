// What the user is told when we serve a GPU's requests no more, although memory is not out; and what is written down
// where that is because its accounting turns out to be wrong: its figures do not add up.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "allocator/blocks/statistics.h"
#include "bindings/adapter/gpu_memory.h"
#include "bindings/settings/settings.h"

namespace frugal {

struct Inconsistency {
  int gpu = 0;
  absl::Status health;    // Inspection::Health()
  Statistics statistics;  // as far as they can be believed
  std::string settings;   // in force, as FRUGAL_ALLOC_CONF has them
  int torch_version = 0;  // 211: 2.11
};

// For people: what happened, what it means for the run, what to do.
std::string ToText(const Inconsistency& inconsistency);

// Writes the text to frugal-inconsistent-<gpu>-<pid>.txt in `folder` (""; the working directory), whole or not at all.
// Returns a sentence that says where it is, or why it is nowhere; "" if `folder` is "off".
std::string WriteReport(const Inconsistency& inconsistency, absl::string_view folder);

// To be called when GpuMemory::NoteRefusal says so: warns why memory of the GPU is native's from now on. `settings` are
// those in force.
void TellOfRefusal(GpuMemory& gpu, const absl::Status& status, const Settings& settings);

}  // namespace frugal
