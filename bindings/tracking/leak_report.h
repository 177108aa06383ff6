// What leaks, over all GPUs, as figures and for people to read.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "allocator/births/leak_verdict.h"
#include "allocator/device_allocator.h"
#include "bindings/tracking/site_table.h"

namespace frugal {

struct GpuEpochs {
  int gpu;
  EpochReport epochs;
  // What may still be taken of the GPU when most is in use; nullopt: unknown.
  std::optional<Bytes> room = std::nullopt;
};

// What does not fill the rest of its GPU within so many epochs, with all smaller findings, is not material: that is
// longer than anybody trains. The same in Python is _tracking/materiality.py, which knows steps, too.
inline constexpr double kMostMaterialEpochs = 10'000;

// A line of the program, or a phase where no line is known, that leaks, grows, or is suspected to leak.
struct LineFinding {
  int gpu;
  SiteId site;          // the one of the line's that grows most
  std::string name;     // "train.py:12 in step"; the phase's name; "": memory that belongs to no named phase
  Bytes largest_block;  // the blocks of that site are above half as large, up to this
  LeakFinding leak;     // the line as a whole
  EpochBoundary latest;
  bool material = true;
};

struct LeakReport {
  int64_t epochs = 0;                 // that have ended
  std::vector<LineFinding> findings;  // the material ones first; leaks, then what grows, then by the rate
  std::string text;                   // several lines
};

// "leak", "growing" or "suspect".
const char* NameOf(LeakVerdict verdict);

// As of the latest boundary. Sites of phases that are expected to grow are left out.
LeakReport MakeLeakReport(absl::Span<const GpuEpochs> gpus, const SiteTable& sites);

}  // namespace frugal
