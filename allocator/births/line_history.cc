#include "allocator/births/line_history.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "allocator/births/trend.h"

namespace frugal {
namespace {

// What may be left of the growth of a line in a sum that stays as it is. A pool whose entries differ in size by a
// factor of three leaves up to a fifth; a leak beside something that falls for its own reasons, as a rule half and
// more.
constexpr double kFlatPart = 1.0 / 3;
// What is replaced at random lets go of some of its own entries, too; a leak of nothing.
constexpr double kLeastLetGo = 0.1;
constexpr size_t kNone = SIZE_MAX;

using Sizes = std::vector<double>;

// At the latest `count` boundaries; before the first one there was nothing.
Sizes LatestLive(absl::Span<const EpochBoundary> boundaries, size_t count) {
  Sizes live(count);
  for (size_t back = 1; back <= std::min(count, boundaries.size()); ++back) {
    live[count - back] = static_cast<double>(boundaries[boundaries.size() - back].live.count());
  }
  return live;
}

void AddTo(Sizes& sum, const Sizes& other) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

double Range(const Sizes& sizes) {
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  return *most - *least;
}

// It is not added to any more, and things go.
bool IsFalling(const Sizes& sizes) {
  return sizes.back() < sizes.front() && std::is_sorted(sizes.rbegin(), sizes.rend());
}

// Something that grows: one size class of a site, or a whole line.
struct Suspicion {
  LeakFinding leak;
  size_t line;
  const SiteHistory* site;  // null: the whole line
  absl::Span<const EpochBoundary> boundaries;

  double grown() const { return leak.bytes_per_epoch * static_cast<double>(leak.boundaries - 1); }
  double let_go() const {
    Bytes bytes;
    for (const EpochBoundary& boundary : boundaries.subspan(boundaries.size() - leak.boundaries + 1))
      bytes += boundary.let_go;
    return static_cast<double>(bytes.count());
  }
};

// All lines of a GPU over the boundaries of one finding.
class Surroundings {
 public:
  Surroundings(absl::Span<const LineHistory> lines, size_t boundaries) : whole_(boundaries), falling_(boundaries) {
    for (const LineHistory& line : lines) {
      lines_.push_back(LatestLive(line.boundaries, boundaries));
      AddTo(whole_, lines_.back());
      if (IsFalling(lines_.back())) {
        AddTo(falling_, lines_.back());
        fallen_.push_back(lines_.size() - 1);
      }
      for (const SiteHistory* site : line.sites) {
        Sizes& sum = by_class_.try_emplace(site->largest_block, Sizes(boundaries)).first->second;
        AddTo(sum, LatestLive(site->boundaries, boundaries));
      }
    }
  }

  // Whether what grows does so at the expense of something else. `suspects` are all lines that something grows at.
  bool MakeUpFor(const Suspicion& suspicion, const std::set<size_t>& suspects) const {
    const double most = suspicion.grown() * kFlatPart;
    if (Range(whole_) <= most) return true;
    if (suspicion.site != nullptr && Range(by_class_.at(suspicion.site->largest_block)) <= most) return true;
    Sizes moving = falling_;
    for (const size_t line : suspects) AddTo(moving, lines_[line]);
    if (Range(moving) <= most) return true;
    const Sizes own = LatestLive(suspicion.boundaries, whole_.size());
    for (size_t line = 0; line < lines_.size(); ++line) {
      Sizes both = lines_[line];
      if (line != suspicion.line) AddTo(both, own);
      if (Range(both) <= most) return true;
    }
    return TakesOver(suspicion);
  }

 private:
  // Whether the line grows by as much as a line falls that no other line makes up for better. Entries that differ in
  // size let the sum of both wander.
  bool TakesOver(const Suspicion& suspicion) const {
    if (suspicion.let_go() < kLeastLetGo * suspicion.grown()) return false;
    for (const size_t fallen : fallen_) {
      size_t best = kNone;
      double least = 0;
      for (size_t line = 0; line < lines_.size(); ++line) {
        Sizes both = lines_[fallen];
        AddTo(both, lines_[line]);
        const double left = std::abs(MedianSlope(both));
        if (line == fallen || (best != kNone && left >= least)) continue;
        best = line;
        least = left;
      }
      if (best == suspicion.line && least <= MedianSlope(lines_[best]) * kFlatPart) return true;
    }
    return false;
  }

  Sizes whole_;
  Sizes falling_;
  std::vector<size_t> fallen_;  // numbers of lines
  std::vector<Sizes> lines_;
  std::map<Bytes, Sizes> by_class_;
};

void AppendSuspicions(const LineHistory& line, size_t number, std::vector<Suspicion>& suspicions) {
  const size_t before = suspicions.size();
  for (const SiteHistory* site : line.sites) {
    const LeakFinding leak = JudgeSite(site->boundaries);
    if (leak.verdict != LeakVerdict::kNone) suspicions.push_back({leak, number, site, site->boundaries});
  }
  if (suspicions.size() > before) return;
  for (const LeakFinding& leak : {JudgeSite(line.boundaries), JudgeGrowth(line.boundaries)}) {
    if (leak.verdict == LeakVerdict::kNone) continue;
    suspicions.push_back({leak, number, nullptr, line.boundaries});
    return;
  }
}

// The site of a line, one size class of it, that has grown most since the line began to.
const SiteHistory* LargestGrowth(const LineHistory& line) {
  const SiteHistory* largest = nullptr;
  double most = 0;
  for (const SiteHistory* site : line.sites) {
    const Sizes live = LatestLive(site->boundaries, line.boundaries.size());
    const double grown = live.back() - live.front();
    if (largest == nullptr || grown > most) {
      largest = site;
      most = grown;
    }
  }
  return largest;
}

void AddTo(LineJudgement& judgement, const LineHistory& line, const Suspicion& suspicion) {
  const bool is_largest = suspicion.leak.bytes_per_epoch > judgement.largest_growth;
  judgement.latest += suspicion.boundaries.back();
  judgement.leak.verdict = std::max(judgement.leak.verdict, suspicion.leak.verdict);
  judgement.leak.bytes_per_epoch += suspicion.leak.bytes_per_epoch;
  judgement.leak.confidence = std::max(judgement.leak.confidence, suspicion.leak.confidence);
  judgement.leak.boundaries = std::max(judgement.leak.boundaries, suspicion.leak.boundaries);
  if (!is_largest) return;
  const SiteHistory* const site = suspicion.site != nullptr ? suspicion.site : LargestGrowth(line);
  judgement.largest_growth = suspicion.leak.bytes_per_epoch;
  judgement.site = site->site;
  judgement.largest_block = site->largest_block;
}

}  // namespace

void LineHistory::Add(const SiteHistory& site) {
  sites.push_back(&site);
  const size_t longest = std::max(boundaries.size(), site.boundaries.size());
  // All end with the latest boundary.
  std::vector<EpochBoundary> both(longest);
  for (size_t back = 1; back <= longest; ++back) {
    EpochBoundary& boundary = both[longest - back];
    if (back <= boundaries.size()) boundary = boundaries[boundaries.size() - back];
    if (back > site.boundaries.size()) continue;
    const EpochBoundary& other = site.boundaries[site.boundaries.size() - back];
    boundary.epoch = other.epoch;
    boundary += other;
  }
  boundaries = std::move(both);
}

std::vector<LineJudgement> JudgeLines(absl::Span<const LineHistory> lines) {
  std::vector<Suspicion> suspicions;
  std::set<size_t> suspects;
  for (size_t line = 0; line < lines.size(); ++line) AppendSuspicions(lines[line], line, suspicions);
  for (const Suspicion& suspicion : suspicions) suspects.insert(suspicion.line);
  std::map<size_t, Surroundings> surroundings;  // by how many boundaries are looked at
  std::vector<LineJudgement> judgements(lines.size());
  for (const Suspicion& suspicion : suspicions) {
    const Surroundings& around =
        surroundings.try_emplace(suspicion.leak.boundaries, lines, suspicion.leak.boundaries).first->second;
    if (around.MakeUpFor(suspicion, suspects)) continue;
    AddTo(judgements[suspicion.line], lines[suspicion.line], suspicion);
  }
  return judgements;
}

}  // namespace frugal
