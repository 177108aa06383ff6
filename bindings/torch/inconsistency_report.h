// What is written down when the accounting of a GPU turns out to be wrong: its figures do not add up.

#ifndef FRUGAL_BINDINGS_TORCH_INCONSISTENCY_REPORT_H_
#define FRUGAL_BINDINGS_TORCH_INCONSISTENCY_REPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "allocator/blocks/statistics.h"

namespace frugal {

struct Inconsistency {
  int gpu = 0;
  absl::Status health;    // DeviceAllocator::Health()
  Statistics statistics;  // as far as they can be believed
  std::string settings;   // in force, as FRUGAL_ALLOC_CONF has them
  int torch_version = 0;  // 211: 2.11
};

// For people: what happened, what it means for the run, what to do.
std::string ToText(const Inconsistency& inconsistency);

// Writes the text to frugal-inconsistent-<gpu>-<pid>.txt in `folder` (""; the working directory), whole or not at all.
// Returns a sentence that says where it is, or why it is nowhere; "" if `folder` is "off".
std::string WriteReport(const Inconsistency& inconsistency, absl::string_view folder);

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_TORCH_INCONSISTENCY_REPORT_H_
