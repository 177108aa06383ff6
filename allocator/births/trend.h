// By how much a series of sizes rises, how sure that is, and whether the blocks have become larger or more. Pure.

#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "allocator/port/units.h"

namespace frugal {

// Above this a series rises. Of two sides: of the series that neither rise nor fall, 5 of 100 seem to rise with so
// much, and 5 to fall. 95 % of two sides would find a leak only some epochs later: the ranks of four values that rise
// reach 91 %. bindings/frugal_alloc/_common/trend.py is the same in Python, for what is judged where no library is.
inline constexpr double kTrendConfidence = 0.9;

struct Trend {
  double per_step = 0;    // MedianSlope
  double confidence = 0;  // that the series rises, from 0 to 1; 0 where it falls
};

// The confidence is the smaller one of two. Mann and Kendall's takes the values for independent of each other, and is
// far too bold about a random walk, such as the size of a pool whose entries are replaced at random: 35 of 100 walks of
// 16 values "rise" by it. Student's t of the increments takes these for independent, and is right about the walk; how
// each of them makes up for the one before, as those of a level that fluctuates do, is taken into account.
// REQUIRES: at least two values.
Trend TrendOf(absl::Span<const double> values);

// Theil and Sen's: the median of the slopes between all pairs, which a few odd values do not move; 0 if there are none.
double MedianSlope(absl::Span<const double> values);

// Mann and Kendall's alone, of two sides and corrected for ties: how sure it is that the values have a trend; 0 where
// that is not a rise.
double RankConfidence(absl::Span<const double> values);

// The part of Student's t with so many degrees of freedom, at least one, that lies within -t and t.
double StudentConfidence(double t, int degrees);

// What is held, in so many blocks.
struct Held {
  Bytes bytes;
  int64_t blocks = 0;
};

// As many blocks as before, give or take one of ten.
bool AreAsMany(const Held& before, const Held& after);

// The blocks have become larger, rather than a few more: most of the growth is in the size of the mean block.
bool AreLarger(const Held& before, const Held& after);

}  // namespace frugal
