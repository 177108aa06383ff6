// How much of a device's memory is alive from each epoch in which it was born. A leak shows there as nowhere else:
// every epoch leaves something behind, whatever comes and goes beside it.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "allocator/births/allocation_site.h"
#include "allocator/port/units.h"

namespace frugal {

// What a site had alive when an epoch ended. Its survivors are the blocks from earlier epochs; left out are those of
// the first epochs, which hold what a program sets up and keeps (BirthEpochs::kWarmUpEpochs).
struct EpochBoundary {
  int64_t epoch = 0;  // the one that ended, from 0
  Bytes live;
  int64_t blocks = 0;
  Bytes older;   // of the live: born before this epoch
  Bytes let_go;  // what was older at the boundary before and has died since
  Bytes survivors;
  int64_t surviving_blocks = 0;
  // The epochs that they are from: bit n for the n-th before this one, and the last bit for all that are older.
  uint64_t survivor_epochs = 0;

  int64_t surviving_epochs() const { return std::popcount(survivor_epochs); }
  // Of the survivors, as far as it is known; `epoch` if there are none.
  int64_t oldest_epoch() const {
    return survivor_epochs == 0 ? epoch : epoch + 1 - static_cast<int64_t>(std::bit_width(survivor_epochs));
  }
  // Another site's at the same time: from then on of both as one.
  EpochBoundary& operator+=(const EpochBoundary& other);
};

// Blocks of one size class that were allocated at one site.
struct SiteHistory {
  SiteId site;
  Bytes largest_block;                    // the class: above half of this, up to this
  std::vector<EpochBoundary> boundaries;  // without a gap, up to the latest
};

// What a site holds now, and what it held when most was in use.
struct SiteUsage {
  SiteId site;
  Bytes live;
  int64_t blocks = 0;
  Bytes at_peak;
};

// What is said here is of the blocks that are recorded, and of those that they stand for. Not thread-safe. Invariant:
// live() is the size of all recorded blocks that have not died.
class BirthEpochs {
 public:
  static constexpr int64_t kWarmUpEpochs = 2;
  // How many boundaries of a site are kept: what is older says nothing about how the program behaves now.
  static constexpr size_t kKeptBoundaries = 32;
  // And how many at which nothing was alive, until a site begins anew.
  static constexpr size_t kKeptEmpty = 16;
  // Born() of a block that is not recorded.
  static constexpr uint32_t kNoCohort = 0;

  BirthEpochs() { cohorts_.emplace_back(); }

  // A recorded block that was handed out counts to a cohort until it dies: those of its site, size class and epoch.
  uint32_t Born(Bytes size, Sample sample) {
    if (sample.site == kUnsampled) return kNoCohort;
    const size_t kind = KindOf(sample, size);
    if (kind >= newest_.size() || newest_[kind] == kNoCohort) [[unlikely]]
      BeginCohort(kind);
    const uint32_t number = newest_[kind];
    Count(cohorts_[number], size, 1);
    if (live_ > highest_) highest_ = live_;
    if (live_ > next_peak_) [[unlikely]]
      NotePeak();
    return number;
  }
  void Died(uint32_t number, Bytes size) {
    if (number != kNoCohort) Count(cohorts_[number], size, -1);
  }

  // Blocks are born in the next epoch from now on.
  void EndEpoch();
  // All epochs so far become the first, which has not ended yet.
  void CollapseEpochs();
  // Each two epochs become one, as if the even ones had never ended: to go on for long in few epochs.
  void HalveEpochs();

  int64_t epochs_ended() const { return epoch_; }
  Bytes live() const { return live_; }
  // What a block adds to live().
  Bytes CountedFor(uint32_t number, Bytes size) const {
    if (number == kNoCohort) return Bytes(0);
    return StandsForOthers(cohorts_[number].kind) ? EstimateOf(size) : size;
  }
  // Where the block was born, and when. REQUIRES: `number` is of a recorded block that has not died.
  SiteId SiteOf(uint32_t number) const { return SiteOfKind(cohorts_[number].kind); }
  int64_t EpochOf(uint32_t number) const { return cohorts_[number].epoch; }

  // Of the sites that had something alive at one of the latest boundaries.
  std::vector<SiteHistory> Histories() const;
  // Of the sites that have something alive now, or had when most was in use.
  std::vector<SiteUsage> Usages() const;
  // From now on the peak of Usages() is the highest since now.
  void RestartPeak();
  // The highest live() since the last call.
  Bytes TakeHighest() { return std::exchange(highest_, live_); }

 private:
  // Blocks of one kind from one epoch; those without blocks are used again.
  struct Cohort {
    size_t kind = 0;
    int64_t epoch = 0;
    Bytes live;
    int64_t blocks = 0;
  };

  static constexpr size_t kSizeClasses = 64;
  static constexpr size_t kKindsPerSite = 2 * kSizeClasses;
  // What holds memory at the peak is noted when it has risen by so much since it was restarted, or at least so much: a
  // run to the top is noted a few hundred times.
  static constexpr int64_t kPeakParts = 32;
  static constexpr Bytes kPeakStep = KiB(64);

  // Site, size class, and whether the blocks stand for others, in one number.
  static size_t KindOf(Sample sample, Bytes size) {
    return (static_cast<size_t>(sample.site) * 2 + static_cast<size_t>(sample.stands_for_others)) * kSizeClasses +
           static_cast<size_t>(std::bit_width(static_cast<uint64_t>(size.count() - 1)));
  }
  static SiteId SiteOfKind(size_t kind) { return static_cast<SiteId>(kind / kKindsPerSite); }
  static bool StandsForOthers(size_t kind) { return (kind / kSizeClasses) % 2 != 0; }

  void Count(Cohort& cohort, Bytes size, int64_t blocks) {
    if (StandsForOthers(cohort.kind)) [[unlikely]]
      return CountEstimate(cohort, size, blocks);
    cohort.live += size * blocks;
    cohort.blocks += blocks;
    live_ += size * blocks;
  }
  void CountEstimate(Cohort& cohort, Bytes size, int64_t blocks);
  void BeginCohort(size_t kind);
  void NotePeak();
  // `boundary` is at the end of this epoch.
  void AddTo(EpochBoundary& boundary, const Cohort& cohort) const;

  int64_t epoch_ = 0;
  Bytes live_;
  std::vector<Cohort> cohorts_;   // the first stands for none
  std::vector<uint32_t> unused_;  // cohorts
  std::vector<uint32_t> newest_;  // by kind: the cohort of this epoch
  // By kind, the oldest first; only of kinds that have some, of which there are far fewer than kinds.
  std::map<size_t, std::vector<EpochBoundary>> boundaries_;
  Bytes highest_;
  Bytes peak_base_;
  Bytes next_peak_;
  std::vector<Bytes> at_peak_;  // by site
};

}  // namespace frugal
