#include "allocator/births/trend.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
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
  if (values.size() < 3) return 0.5;
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

}  // namespace

double RankConfidence(absl::Span<const double> values) {
  double rises = 0;  // less falls
  for (size_t later = 1; later < values.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      rises += values[later] > values[earlier] ? 1 : values[later] < values[earlier] ? -1 : 0;
    }
  }
  // As if there were no ties: with many of them that is too careful, never too bold.
  const auto n = static_cast<double>(values.size());
  const double deviation = std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const double z = rises > 0 ? (rises - 1) / deviation : 0;
  return std::erfc(-z / std::sqrt(2)) / 2;
}

double StudentConfidence(double t, int degrees) {
  // Abramowitz and Stegun 26.7.3 and 26.7.4, exact for whole degrees of freedom: the part within -t and t.
  const double angle = std::atan(t / std::sqrt(degrees));
  const double cosine = std::cos(angle);
  const bool is_odd = degrees % 2 != 0;
  double term = is_odd ? cosine : 1;
  double sum = degrees == 1 ? 0 : term;
  for (int k = is_odd ? 3 : 2; k < degrees; k += 2) {
    term *= cosine * cosine * (k - 1) / k;
    sum += term;
  }
  const double within = is_odd ? (angle + std::sin(angle) * sum) * 2 / std::numbers::pi : std::sin(angle) * sum;
  return (1 + within) / 2;
}

Trend TrendOf(absl::Span<const double> values) {
  std::vector<double> slopes;
  for (size_t later = 1; later < values.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      slopes.push_back((values[later] - values[earlier]) / static_cast<double>(later - earlier));
    }
  }
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  return {*middle, std::min(RankConfidence(values), IncrementsConfidence(values))};
}

}  // namespace frugal
