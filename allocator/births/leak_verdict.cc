#include "allocator/births/leak_verdict.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "allocator/births/trend.h"

namespace frugal {
namespace {

// The trend is taken over this many boundaries at most: a leak may begin late.
constexpr size_t kTrendBoundaries = 16;
// And survivors are compared with those of this many epochs ago: a leak need not show in each epoch.
constexpr size_t kRisingEpochs = 8;
// Of what was let go, as part of which the growth counts.
constexpr double kLeastGrowth = 0.25;
// So many epochs in a row must make a tensor larger, and each by about as much: sizes drawn at random do so once in
// 47,000 times.
constexpr size_t kGrowingEpochs = 7;
constexpr int64_t kMostUneven = 3;
// Of the longest time between two epochs that left something behind.
constexpr int64_t kStoppedAfter = 2;
// Bits of survivor_epochs that stand for one epoch each.
constexpr int64_t kLastKnownEpoch = 63;
// Of what the earlier half of the epochs has added, what the later one adds at most.
constexpr double kFillingPart = 0.6;
// Less than kTrendConfidence: that something fills up is said to be silent, not to accuse.
constexpr double kFillingConfidence = 0.8;
// Of what the earlier half of the later epochs has added, what their later half adds at least where nothing fills up.
constexpr double kSteadyPart = 0.95;
// As above, that the more goes the more there is; and so many times as much as is held may still come until as much
// goes.
constexpr double kRestConfidence = 0.7;
constexpr double kRestWithin = 3;
// So many epochs, as part of what the trend says of them, must still show the growth: a pool may just have been filled.
constexpr size_t kLatestEpochs = 3;
constexpr double kLatestPart = 0.25;

// The boundaries since the oldest survivor was born, without those that are too old.
absl::Span<const EpochBoundary> Recent(absl::Span<const EpochBoundary> boundaries) {
  const int64_t oldest = boundaries.back().oldest_epoch();
  while (boundaries.size() > kTrendBoundaries || boundaries.front().epoch < oldest) boundaries.remove_prefix(1);
  return boundaries;
}

std::vector<double> LiveOf(absl::Span<const EpochBoundary> boundaries) {
  std::vector<double> live;
  for (const EpochBoundary& boundary : boundaries) live.push_back(static_cast<double>(boundary.live.count()));
  return live;
}

// More epochs have left something behind since then than have let go of it all.
bool IsRising(absl::Span<const EpochBoundary> boundaries) {
  const size_t epochs = std::min(boundaries.size() - 1, kRisingEpochs);
  const uint64_t now = boundaries.back().survivor_epochs;
  const uint64_t then = boundaries[boundaries.size() - 1 - epochs].survivor_epochs;
  const uint64_t since = (uint64_t{1} << (epochs + 1)) - 1;
  return std::popcount(now & since) > std::popcount((then << epochs) & ~now);
}

// Nothing has been left behind for longer than it has ever taken to leave the next thing behind: a cache that is full.
bool HasStopped(const EpochBoundary& latest) {
  int64_t longest = 0;
  int64_t before = -1;
  int64_t newest = -1;
  for (int64_t ago = 0; ago < kLastKnownEpoch; ++ago) {
    if ((latest.survivor_epochs >> ago & 1) == 0) continue;
    if (newest < 0) newest = ago;
    if (before >= 0) longest = std::max(longest, ago - before);
    before = ago;
  }
  return newest > kStoppedAfter * std::max<int64_t>(longest, 1);
}

// No step is many times as large as the one in the middle.
bool IsEven(std::vector<int64_t> steps) {
  std::sort(steps.begin(), steps.end());
  const int64_t middle = steps[steps.size() / 2];
  return steps.back() <= middle * kMostUneven && steps.front() * kMostUneven >= middle;
}

// Each epoch adds about as much as any other, and the later ones no less than those before.
bool IsAddedToEvenly(absl::Span<const double> live) {
  const size_t half = (live.size() - 1) / 2;
  const double earlier = live[half] - live[0];
  const double later = live.back() - live[live.size() - 1 - half];
  if (later < kSteadyPart * earlier) return false;
  std::vector<int64_t> steps;
  for (size_t i = 1; i < live.size(); ++i) steps.push_back(static_cast<int64_t>(live[i] - live[i - 1]));
  return steps.size() >= kGrowingEpochs && *std::min_element(steps.begin(), steps.end()) > 0 &&
         IsEven(std::move(steps));
}

// What each epoch adds becomes less and less, as a cache does that fills up with what it has not met yet. What has
// become less at one time only is a buffer that is full, beside something that is not.
bool IsFillingUp(absl::Span<const double> live) {
  const size_t half = live.size() / 2;
  const double earlier = live[half] - live[0];
  const double later = live.back() - live[live.size() - 1 - half];
  if (later >= kFillingPart * earlier || IsAddedToEvenly(live.last(live.size() - half))) return false;
  std::vector<double> added;
  for (size_t i = 1; i < live.size(); ++i) added.push_back(live[i - 1] - live[i]);
  return RankConfidence(added) >= kFillingConfidence;
}

// The latest epochs, on average, hold more than those before them.
bool GoesOn(absl::Span<const double> live, const Trend& trend) {
  if (live.size() < 2 * kLatestEpochs) return true;
  double more = 0;
  for (size_t back = 1; back <= kLatestEpochs; ++back) {
    more += live[live.size() - back] - live[live.size() - back - kLatestEpochs];
  }
  return more >= kLatestPart * trend.per_step * static_cast<double>(kLatestEpochs * kLatestEpochs);
}

// The more it holds, the more of it goes, and where as much goes as comes is not far away: a cache that evicts as it
// fills. A buffer that has become full lets as much go from then on as ever.
bool ComesToRest(absl::Span<const EpochBoundary> boundaries, const Trend& trend) {
  boundaries.remove_prefix(1);
  while (boundaries.size() > 2 && boundaries[1].let_go == Bytes(0)) boundaries.remove_prefix(1);
  std::vector<double> older;
  std::vector<double> let_go;
  for (size_t i = 1; i < boundaries.size(); ++i) {
    older.push_back(static_cast<double>(boundaries[i - 1].older.count()));
    let_go.push_back(static_cast<double>(boundaries[i].let_go.count()));
  }
  if (RankConfidence(let_go) < kRestConfidence) return false;
  const double more = static_cast<double>(boundaries.back().live.count()) * kRestWithin;
  return trend.per_step * MedianSlope(older) < more * MedianSlope(let_go);
}

bool IsReplacement(absl::Span<const EpochBoundary> boundaries, const Trend& trend) {
  Bytes let_go;
  for (const EpochBoundary& boundary : boundaries.subspan(1)) let_go += boundary.let_go;
  const double grown = trend.per_step * static_cast<double>(boundaries.size() - 1);
  return grown < kLeastGrowth * static_cast<double>(let_go.count());
}

Held HeldAt(const EpochBoundary& boundary) { return {boundary.live, boundary.blocks}; }

}  // namespace

LeakFinding JudgeSite(absl::Span<const EpochBoundary> boundaries) {
  if (boundaries.empty() || boundaries.back().surviving_epochs() < kSuspectEpochs) return {};
  if (!IsRising(boundaries) || HasStopped(boundaries.back())) return {};
  // The survivors are from several epochs, so there are several boundaries.
  const absl::Span<const EpochBoundary> recent = Recent(boundaries);
  const std::vector<double> live = LiveOf(recent);
  const Trend trend = TrendOf(live);
  if (trend.per_step <= 0 || trend.confidence < kTrendConfidence) return {};
  if (!GoesOn(live, trend) || IsReplacement(recent, trend)) return {};
  if (IsFillingUp(LiveOf(boundaries)) || ComesToRest(boundaries, trend)) return {};
  const bool sure = boundaries.back().surviving_epochs() >= kLeakEpochs;
  return {sure ? LeakVerdict::kLeak : LeakVerdict::kSuspect, trend.per_step, trend.confidence, recent.size()};
}

LeakFinding JudgeGrowth(absl::Span<const EpochBoundary> boundaries) {
  if (boundaries.size() < kGrowingEpochs) return {};
  boundaries = boundaries.last(kGrowingEpochs);
  std::vector<int64_t> steps;
  for (size_t later = 1; later < boundaries.size(); ++later) {
    steps.push_back((boundaries[later].live - boundaries[later - 1].live).count());
    if (steps.back() <= 0) return {};
    if (!AreAsMany(HeldAt(boundaries[later - 1]), HeldAt(boundaries[later]))) return {};
  }
  if (boundaries.front().epoch < BirthEpochs::kWarmUpEpochs || !IsEven(std::move(steps))) return {};
  if (!AreLarger(HeldAt(boundaries.front()), HeldAt(boundaries.back()))) return {};
  const Trend trend = TrendOf(LiveOf(boundaries));
  return {LeakVerdict::kGrowing, trend.per_step, trend.confidence, boundaries.size()};
}

}  // namespace frugal
