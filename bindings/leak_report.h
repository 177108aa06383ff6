// What leaks, over all GPUs, as figures and for people to read.

#ifndef FRUGAL_BINDINGS_LEAK_REPORT_H_
#define FRUGAL_BINDINGS_LEAK_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "allocator/device_allocator.h"
#include "allocator/leak_verdict.h"
#include "bindings/site_names.h"

namespace frugal {

struct GpuEpochs {
  int gpu;
  DeviceAllocator::EpochReport epochs;
};

// A site that leaks or is suspected to.
struct SiteFinding {
  int gpu;
  std::string site;     // "": memory that belongs to no named part
  Bytes largest_block;  // the blocks are above half as large, up to this
  LeakFinding leak;
  EpochBoundary latest;
};

struct LeakReport {
  int64_t epochs = 0;                 // that have ended
  std::vector<SiteFinding> findings;  // leaks first, then by the rate
  std::string text;                   // several lines
};

// As of the latest boundary. Sites that are expected to grow are left out.
LeakReport MakeLeakReport(absl::Span<const GpuEpochs> gpus, const SiteNames& names);

}  // namespace frugal

#endif  // FRUGAL_BINDINGS_LEAK_REPORT_H_
