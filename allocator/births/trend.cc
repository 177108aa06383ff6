#include "allocator/births/trend.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <numbers>
#include <vector>

namespace frugal {
namespace {

// The least that making up for one another may leave of the increments' variance: it is estimated from a few of them.
constexpr double kLeastVariance = 0.125;

double IncrementsConfidence(absl::Span<const double> values) {
  const auto count = static_cast<double>(values.size() - 1);
  const double mean = (values.back() - values.front()) / count;
  if (mean <= 0) return 0;
  if (values.size() < 3) return 0;
  double variance = 0;
  double with_next = 0;  // covariance of an increment and the next
  double before = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const double off = values[i] - values[i - 1] - mean;
    variance += off * off;
    if (i > 1) with_next += off * before;
    before = off;
  }
  const double degrees = count - 1;
  const double long_run = std::max(variance + std::min(with_next, 0.0), variance * kLeastVariance) / degrees;
  if (long_run == 0) return 1;
  return StudentConfidence(mean / std::sqrt(long_run / count), static_cast<int>(degrees));
}

// Of the rises less the falls of so many values in any order; ties take theirs away.
double RankVariance(size_t values) {
  const auto count = static_cast<double>(values);
  return count * (count - 1) * (2 * count + 5) / 18;
}

// By which part of what there was before.
double Growth(int64_t before, int64_t after) {
  return static_cast<double>(after) / static_cast<double>(std::max<int64_t>(before, 1)) - 1;
}

}  // namespace

double MedianSlope(absl::Span<const double> values) {
  std::vector<double> slopes;
  for (size_t later = 1; later < values.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      slopes.push_back((values[later] - values[earlier]) / static_cast<double>(later - earlier));
    }
  }
  if (slopes.empty()) return 0;
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  if (slopes.size() % 2 != 0) return *middle;
  return (*std::max_element(slopes.begin(), middle) + *middle) / 2;
}

double RankConfidence(absl::Span<const double> values) {
  double rises = 0;  // less falls
  for (size_t later = 1; later < values.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      rises += values[later] > values[earlier] ? 1 : values[later] < values[earlier] ? -1 : 0;
    }
  }
  if (rises <= 0) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  double variance = RankVariance(sorted.size());
  for (auto start = sorted.begin(); start != sorted.end();) {
    const auto end = std::upper_bound(start, sorted.end(), *start);
    variance -= RankVariance(static_cast<size_t>(end - start));
    start = end;
  }
  return std::erf((rises - 1) / std::sqrt(2 * variance));
}

double StudentConfidence(double t, int degrees) {
  // Abramowitz and Stegun 26.7.3 and 26.7.4, exact for whole degrees of freedom.
  const double angle = std::atan(t / std::sqrt(degrees));
  const double cosine = std::cos(angle);
  const bool is_odd = degrees % 2 != 0;
  double term = is_odd ? cosine : 1;
  double sum = degrees == 1 ? 0 : term;
  for (int k = is_odd ? 3 : 2; k < degrees; k += 2) {
    term *= cosine * cosine * (k - 1) / k;
    sum += term;
  }
  return is_odd ? (angle + std::sin(angle) * sum) * 2 / std::numbers::pi : std::sin(angle) * sum;
}

Trend TrendOf(absl::Span<const double> values) {
  return {MedianSlope(values), std::min(RankConfidence(values), IncrementsConfidence(values))};
}

bool AreAsMany(const Held& before, const Held& after) {
  return std::abs(after.blocks - before.blocks) * 10 <= std::max<int64_t>(before.blocks, 1);
}

bool AreLarger(const Held& before, const Held& after) {
  return 2 * Growth(before.blocks, after.blocks) <= Growth(before.bytes.count(), after.bytes.count());
}

}  // namespace frugal
