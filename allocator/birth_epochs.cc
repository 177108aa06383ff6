#include "allocator/birth_epochs.h"

#include <algorithm>

namespace frugal {

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

std::vector<EpochBoundary> BirthEpochs::TakeBoundaries() const {
  std::vector<EpochBoundary> taken(newest_.size());
  for (size_t kind = 0; kind < taken.size(); ++kind) {
    taken[kind].epoch = taken[kind].oldest_epoch = epoch_;
    if (kind < boundaries_.size() && !boundaries_[kind].empty()) taken[kind].let_go = boundaries_[kind].back().older;
  }
  for (const Cohort& cohort : cohorts_) {
    if (cohort.blocks == 0) continue;
    EpochBoundary& boundary = taken[cohort.kind];
    boundary.live += cohort.live;
    boundary.blocks += cohort.blocks;
    if (cohort.epoch == epoch_) continue;
    boundary.older += cohort.live;
    if (cohort.epoch < epoch_ - 1) boundary.let_go -= cohort.live;
    if (cohort.epoch < kWarmUpEpochs) continue;
    boundary.survivors += cohort.live;
    boundary.surviving_blocks += cohort.blocks;
    ++boundary.surviving_epochs;
    boundary.oldest_epoch = std::min(boundary.oldest_epoch, cohort.epoch);
  }
  return taken;
}

void BirthEpochs::EndEpoch() {
  const std::vector<EpochBoundary> ended = TakeBoundaries();
  boundaries_.resize(ended.size());
  for (size_t kind = 0; kind < ended.size(); ++kind) {
    std::vector<EpochBoundary>& boundaries = boundaries_[kind];
    // Nothing is alive, so nothing can have leaked: the history begins anew with the next block.
    if (ended[kind].blocks == 0) boundaries.clear();
    if (ended[kind].blocks > 0) boundaries.push_back(ended[kind]);
    if (boundaries.size() > kKeptBoundaries) boundaries.erase(boundaries.begin());
  }
  unused_.clear();
  for (uint32_t number = kNoCohort + 1; number < cohorts_.size(); ++number) {
    if (cohorts_[number].blocks == 0) unused_.push_back(number);
  }
  std::fill(newest_.begin(), newest_.end(), kNoCohort);
  ++epoch_;
}

Bytes BirthEpochs::live() const {
  Bytes live;
  for (const Cohort& cohort : cohorts_) live += cohort.live;
  return live;
}

std::vector<SiteHistory> BirthEpochs::Histories() const {
  std::vector<SiteHistory> histories;
  for (size_t kind = 0; kind < boundaries_.size(); ++kind) {
    const std::vector<EpochBoundary>& boundaries = boundaries_[kind];
    if (boundaries.empty()) continue;
    const auto site = static_cast<SiteId>(kind / kSizeClasses);
    histories.push_back({site, Bytes(int64_t{1} << (kind % kSizeClasses)), boundaries});
  }
  return histories;
}

}  // namespace frugal
