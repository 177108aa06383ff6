// Whether what a site keeps from epoch to epoch is a leak. Pure: a history in, a verdict out.

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "allocator/births/birth_epochs.h"

namespace frugal {

enum class LeakVerdict {
  kNone,
  kSuspect,  // every epoch seems to leave something behind; some more will tell
  kLeak,
  kGrowing,  // nothing is left behind, but what is replaced is replaced by something larger
};

struct LeakFinding {
  LeakVerdict verdict = LeakVerdict::kNone;
  double bytes_per_epoch = 0;  // by which the site grows
  double confidence = 0;       // that it grows at all, from 0 to 1
  size_t boundaries = 0;       // the latest, over which it does
};

// Survivors of this many epochs make a site suspect, and a leak. "Memory grew by a tenth", which people look for, is
// true of every third of the healthy programs in leak_calibration_test, of which this accuses none.
inline constexpr int64_t kSuspectEpochs = 4;
inline constexpr int64_t kLeakEpochs = 6;
// The first epoch after which the verdict can be kLeak, counted from 1.
inline constexpr int64_t kFirstLeakEpoch = BirthEpochs::kWarmUpEpochs + kLeakEpochs + 1;

// The rules. The survivors are from at least kSuspectEpochs or kLeakEpochs epochs, from more than some time ago, and
// the latest from not long ago, so that a cache which is full or drops the oldest stays silent. The site as a whole
// grows: a trend at kTrendConfidence, which does not come to its end. And the growth is not small beside what the site
// let go meanwhile, so that a buffer which replaces its content stays silent, whose size wanders as any random walk
// does. What other sites lose at the same time is JudgeLines' to see. `boundaries` is a SiteHistory's.
LeakFinding JudgeSite(absl::Span<const EpochBoundary> boundaries);

// kGrowing, or kNone: the same number of blocks has become larger with each of the latest epochs, evenly. Of all size
// classes of a site, or of a line, together.
LeakFinding JudgeGrowth(absl::Span<const EpochBoundary> boundaries);

}  // namespace frugal
