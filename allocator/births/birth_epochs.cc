#include "allocator/births/birth_epochs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/types/span.h"

namespace frugal {
namespace {

constexpr int kLastBit = 63;

// Of an epoch that ended so long before the boundary.
uint64_t EpochBit(int64_t ago) { return uint64_t{1} << std::min<int64_t>(ago, kLastBit); }

bool IsLongGone(absl::Span<const EpochBoundary> boundaries) {
  if (boundaries.size() < BirthEpochs::kKeptEmpty) return false;
  const absl::Span<const EpochBoundary> latest = boundaries.last(BirthEpochs::kKeptEmpty);
  return std::all_of(latest.begin(), latest.end(), [](const EpochBoundary& boundary) { return boundary.blocks == 0; });
}

// The boundary after the second of two epochs that became one.
EpochBoundary Halved(EpochBoundary boundary) {
  const uint64_t epochs = boundary.survivor_epochs;
  boundary.epoch /= 2;
  boundary.survivor_epochs = 0;
  for (int ago = 0; ago <= kLastBit; ++ago) {
    const int64_t halved = ago / 2;
    const bool survives = halved > 0 && boundary.epoch - halved >= BirthEpochs::kWarmUpEpochs;
    if ((epochs >> ago & 1) != 0 && survives) boundary.survivor_epochs |= EpochBit(halved);
  }
  return boundary;
}

}  // namespace

EpochBoundary& EpochBoundary::operator+=(const EpochBoundary& other) {
  live += other.live;
  blocks += other.blocks;
  older += other.older;
  let_go += other.let_go;
  survivors += other.survivors;
  surviving_blocks += other.surviving_blocks;
  survivor_epochs |= other.survivor_epochs;
  return *this;
}

void BirthEpochs::CountEstimate(Cohort& cohort, Bytes size, int64_t blocks) {
  const Bytes estimate = EstimateOf(size);
  cohort.live += estimate * blocks;
  cohort.blocks += (estimate.count() + size.count() / 2) / size.count() * blocks;
  live_ += estimate * blocks;
}

void BirthEpochs::BeginCohort(size_t kind) {
  if (kind >= newest_.size()) newest_.resize(kind + 1, kNoCohort);
  if (unused_.empty()) {
    unused_.push_back(static_cast<uint32_t>(cohorts_.size()));
    cohorts_.emplace_back();
  }
  newest_[kind] = unused_.back();
  unused_.pop_back();
  cohorts_[newest_[kind]] = Cohort{kind, epoch_, Bytes(0), 0};
}

void BirthEpochs::AddTo(EpochBoundary& boundary, const Cohort& cohort) const {
  boundary.live += cohort.live;
  boundary.blocks += cohort.blocks;
  if (cohort.epoch == epoch_) return;
  boundary.older += cohort.live;
  if (cohort.epoch < epoch_ - 1) boundary.let_go -= cohort.live;
  if (cohort.epoch < kWarmUpEpochs) return;
  boundary.survivors += cohort.live;
  boundary.surviving_blocks += cohort.blocks;
  boundary.survivor_epochs |= EpochBit(epoch_ - cohort.epoch);
}

void BirthEpochs::EndEpoch() {
  for (auto& [kind, boundaries] : boundaries_) {
    const Bytes older = boundaries.back().older;
    boundaries.emplace_back().let_go = older;
    if (boundaries.size() > kKeptBoundaries) boundaries.erase(boundaries.begin());
  }
  for (const Cohort& cohort : cohorts_) {
    if (cohort.blocks == 0) continue;
    std::vector<EpochBoundary>& boundaries = boundaries_[cohort.kind];
    if (boundaries.empty()) boundaries.emplace_back();
    AddTo(boundaries.back(), cohort);
  }
  for (auto& [kind, boundaries] : boundaries_) boundaries.back().epoch = epoch_;
  std::erase_if(boundaries_, [](const auto& of_kind) { return IsLongGone(of_kind.second); });
  unused_.clear();
  for (uint32_t number = kNoCohort + 1; number < cohorts_.size(); ++number) {
    if (cohorts_[number].blocks == 0) unused_.push_back(number);
  }
  std::fill(newest_.begin(), newest_.end(), kNoCohort);
  ++epoch_;
}

void BirthEpochs::CollapseEpochs() {
  for (Cohort& cohort : cohorts_) cohort.epoch = 0;
  boundaries_.clear();
  epoch_ = 0;
}

void BirthEpochs::HalveEpochs() {
  for (Cohort& cohort : cohorts_) cohort.epoch /= 2;
  std::map<size_t, Bytes> older;
  const int64_t last = epoch_ / 2 - 1;
  for (const Cohort& cohort : cohorts_) {
    if (cohort.blocks > 0 && cohort.epoch < last) older[cohort.kind] += cohort.live;
  }
  for (auto& [kind, boundaries] : boundaries_) {
    Bytes let_go;
    std::vector<EpochBoundary> halved;
    for (EpochBoundary& boundary : boundaries) {
      boundary.let_go += let_go;
      let_go = boundary.epoch % 2 == 0 ? boundary.let_go : Bytes(0);
      if (boundary.epoch % 2 != 0) halved.push_back(Halved(boundary));
    }
    // What died since is counted against this.
    if (!halved.empty()) halved.back().older = older[kind];
    boundaries = std::move(halved);
  }
  std::erase_if(boundaries_, [](const auto& of_kind) { return of_kind.second.empty(); });
  epoch_ /= 2;
}

std::vector<SiteHistory> BirthEpochs::Histories() const {
  std::vector<SiteHistory> histories;
  for (const auto& [kind, boundaries] : boundaries_) {
    histories.push_back({SiteOfKind(kind), Bytes(int64_t{1} << (kind % kSizeClasses)), boundaries});
  }
  return histories;
}

void BirthEpochs::NotePeak() {
  next_peak_ = live_ + std::max(Bytes((live_ - peak_base_).count() / kPeakParts), kPeakStep);
  at_peak_.assign(newest_.size() / kKindsPerSite + 1, Bytes(0));
  for (const Cohort& cohort : cohorts_) at_peak_[static_cast<size_t>(SiteOfKind(cohort.kind))] += cohort.live;
}

void BirthEpochs::RestartPeak() {
  peak_base_ = live_;
  NotePeak();
}

std::vector<SiteUsage> BirthEpochs::Usages() const {
  std::vector<SiteUsage> by_site(newest_.size() / kKindsPerSite + 1);
  for (const Cohort& cohort : cohorts_) {
    SiteUsage& usage = by_site[static_cast<size_t>(SiteOfKind(cohort.kind))];
    usage.live += cohort.live;
    usage.blocks += cohort.blocks;
  }
  std::vector<SiteUsage> usages;
  for (size_t site = 0; site < by_site.size(); ++site) {
    SiteUsage& usage = by_site[site];
    usage.site = static_cast<SiteId>(site);
    if (site < at_peak_.size()) usage.at_peak = at_peak_[site];
    if (usage.blocks > 0 || usage.at_peak > Bytes(0)) usages.push_back(usage);
  }
  return usages;
}

}  // namespace frugal
