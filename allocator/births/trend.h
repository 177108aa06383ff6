// By how much a series of sizes rises, and how sure that is. Pure.

#ifndef FRUGAL_ALLOCATOR_BIRTHS_TREND_H_
#define FRUGAL_ALLOCATOR_BIRTHS_TREND_H_

#include "absl/types/span.h"

namespace frugal {

struct Trend {
  double per_step = 0;    // Theil and Sen's median of the slopes, which an odd value does not change
  double confidence = 0;  // that the series rises, from 0 to 1
};

// The confidence is the smaller one of two. Mann and Kendall's takes the values for independent of each other, and is
// far too bold about a random walk, such as the size of a pool whose entries are replaced at random: 35 of 100 walks of
// 16 values "rise" at 95 %. Student's t of the increments takes these for independent, and is right about the walk; how
// each of them makes up for the one before, as those of a level that fluctuates do, is taken into account.
// REQUIRES: at least two values.
Trend TrendOf(absl::Span<const double> values);

// Mann and Kendall's alone.
double RankConfidence(absl::Span<const double> values);

// That the mean of a normal variable is above 0, by Student's t with so many degrees of freedom, at least one.
double StudentConfidence(double t, int degrees);

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BIRTHS_TREND_H_
