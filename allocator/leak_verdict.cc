#include "allocator/leak_verdict.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

namespace frugal {
namespace {

// The trend is taken over this many boundaries at most: a leak may begin late.
constexpr size_t kTrendBoundaries = 16;
// And survivors are compared with those of this many epochs ago: a leak need not show in each epoch.
constexpr size_t kRisingEpochs = 8;
constexpr double kLeastConfidence = 0.95;
// Of what was let go, as part of which the growth counts.
constexpr double kLeastGrowth = 0.25;
// So many epochs in a row must make a tensor larger, and each by about as much: sizes drawn at random do so once in
// 47,000 times.
constexpr size_t kGrowingEpochs = 7;
constexpr int64_t kMostUneven = 3;

// The boundaries since the oldest survivor was born, without those that are too old.
absl::Span<const EpochBoundary> Recent(absl::Span<const EpochBoundary> boundaries) {
  const int64_t oldest = boundaries.back().oldest_epoch();
  while (boundaries.size() > kTrendBoundaries || boundaries.front().epoch < oldest) boundaries.remove_prefix(1);
  return boundaries;
}

struct Trend {
  double bytes_per_epoch;
  double confidence;
};

// REQUIRES: at least two boundaries.
Trend TrendOf(absl::Span<const EpochBoundary> boundaries) {
  std::vector<double> slopes;
  double rises = 0;  // less falls
  for (size_t later = 1; later < boundaries.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      const int64_t bytes = (boundaries[later].live - boundaries[earlier].live).count();
      slopes.push_back(static_cast<double>(bytes) / static_cast<double>(later - earlier));
      rises += bytes > 0 ? 1 : bytes < 0 ? -1 : 0;
    }
  }
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  // As if there were no ties: with many of them that is too careful, never too bold.
  const auto n = static_cast<double>(boundaries.size());
  const double deviation = std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const double z = rises > 0 ? (rises - 1) / deviation : 0;
  return {*middle, std::erfc(-z / std::sqrt(2)) / 2};
}

// More epochs have left something behind since then than have let go of it all.
bool IsRising(absl::Span<const EpochBoundary> boundaries) {
  const size_t epochs = std::min(boundaries.size() - 1, kRisingEpochs);
  const uint64_t now = boundaries.back().survivor_epochs;
  const uint64_t then = boundaries[boundaries.size() - 1 - epochs].survivor_epochs;
  const uint64_t since = (uint64_t{1} << (epochs + 1)) - 1;
  return std::popcount(now & since) > std::popcount((then << epochs) & ~now);
}

bool IsReplacement(absl::Span<const EpochBoundary> boundaries, const Trend& trend) {
  Bytes let_go;
  for (const EpochBoundary& boundary : boundaries.subspan(1)) let_go += boundary.let_go;
  const double grown = trend.bytes_per_epoch * static_cast<double>(boundaries.size() - 1);
  return grown < kLeastGrowth * static_cast<double>(let_go.count());
}

// No step is many times as large as the one in the middle.
bool IsEven(std::vector<int64_t> steps) {
  std::sort(steps.begin(), steps.end());
  const int64_t middle = steps[steps.size() / 2];
  return steps.back() <= middle * kMostUneven && steps.front() * kMostUneven >= middle;
}

// As many blocks as before, give or take one of ten.
bool IsSteady(int64_t before, int64_t blocks) { return std::abs(blocks - before) * 10 <= std::max<int64_t>(before, 1); }

}  // namespace

LeakFinding JudgeSite(absl::Span<const EpochBoundary> boundaries) {
  if (boundaries.empty() || boundaries.back().surviving_epochs() < kSuspectEpochs || !IsRising(boundaries)) return {};
  // The survivors are from several epochs, so there are several boundaries.
  const absl::Span<const EpochBoundary> recent = Recent(boundaries);
  const Trend trend = TrendOf(recent);
  if (trend.bytes_per_epoch <= 0 || trend.confidence < kLeastConfidence || IsReplacement(recent, trend)) return {};
  const bool sure = boundaries.back().surviving_epochs() >= kLeakEpochs;
  return {sure ? LeakVerdict::kLeak : LeakVerdict::kSuspect, trend.bytes_per_epoch, trend.confidence};
}

LeakFinding JudgeGrowth(absl::Span<const EpochBoundary> boundaries) {
  if (boundaries.size() < kGrowingEpochs) return {};
  boundaries = boundaries.last(kGrowingEpochs);
  std::vector<int64_t> steps;
  for (size_t later = 1; later < boundaries.size(); ++later) {
    steps.push_back((boundaries[later].live - boundaries[later - 1].live).count());
    if (steps.back() <= 0) return {};
    if (!IsSteady(boundaries[later - 1].blocks, boundaries[later].blocks)) return {};
  }
  if (boundaries.front().epoch < BirthEpochs::kWarmUpEpochs || !IsEven(std::move(steps))) return {};
  const Trend trend = TrendOf(boundaries);
  return {LeakVerdict::kGrowing, trend.bytes_per_epoch, trend.confidence};
}

}  // namespace frugal
