// How much of a device's memory is alive from each epoch in which it was born. A leak shows there as nowhere else:
// every epoch leaves something behind, whatever comes and goes beside it.

#ifndef FRUGAL_ALLOCATOR_BIRTH_EPOCHS_H_
#define FRUGAL_ALLOCATOR_BIRTH_EPOCHS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/allocation_site.h"
#include "allocator/units.h"

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
  int64_t surviving_epochs = 0;  // how many epochs they are from
  int64_t oldest_epoch = 0;      // of the survivors; `epoch` if there are none
};

// Blocks of one size class that were allocated at one site.
struct SiteHistory {
  SiteId site;
  Bytes largest_block;                    // the class: above half of this, up to this
  std::vector<EpochBoundary> boundaries;  // without a gap, up to the latest; at each, something was alive
};

// Not thread-safe. Invariant: live() is the size of all blocks that were born and have not died.
class BirthEpochs {
 public:
  static constexpr int64_t kWarmUpEpochs = 2;
  // How many boundaries of a site are kept: what is older says nothing about how the program behaves now.
  static constexpr size_t kKeptBoundaries = 32;

  BirthEpochs() { cohorts_.emplace_back(); }

  // A block that was handed out counts to a cohort until it dies: those of its site, size class and epoch.
  uint32_t Born(Bytes size) {
    const size_t kind = KindOf(CurrentSite::Get(), size);
    if (kind >= newest_.size() || newest_[kind] == kNoCohort) [[unlikely]]
      BeginCohort(kind);
    const uint32_t number = newest_[kind];
    Cohort& cohort = cohorts_[number];
    cohort.live += size;
    ++cohort.blocks;
    return number;
  }
  void Died(uint32_t number, Bytes size) {
    Cohort& cohort = cohorts_[number];
    cohort.live -= size;
    --cohort.blocks;
  }

  // Blocks are born in the next epoch from now on.
  void EndEpoch();

  int64_t epochs_ended() const { return epoch_; }
  Bytes live() const;
  // Of the sites that had something alive at the latest boundary.
  std::vector<SiteHistory> Histories() const;

 private:
  // Blocks of one kind from one epoch; those without blocks are used again.
  struct Cohort {
    size_t kind = 0;
    int64_t epoch = 0;
    Bytes live;
    int64_t blocks = 0;
  };

  static constexpr uint32_t kNoCohort = 0;
  static constexpr size_t kSizeClasses = 64;

  // Site and size class in one number.
  static size_t KindOf(SiteId site, Bytes size) {
    return static_cast<size_t>(site) * kSizeClasses +
           static_cast<size_t>(std::bit_width(static_cast<uint64_t>(size.count() - 1)));
  }

  void BeginCohort(size_t kind);
  // What is alive now, by kind.
  std::vector<EpochBoundary> TakeBoundaries() const;

  int64_t epoch_ = 0;
  std::vector<Cohort> cohorts_;                         // the first stands for none
  std::vector<uint32_t> unused_;                        // cohorts
  std::vector<uint32_t> newest_;                        // by kind: the cohort of this epoch
  std::vector<std::vector<EpochBoundary>> boundaries_;  // by kind, the oldest first
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BIRTH_EPOCHS_H_
