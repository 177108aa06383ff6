// What an allocator's blocks are recorded by: the site and the epoch of their birth.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "allocator/allocator_state.h"
#include "allocator/births/birth_epochs.h"
#include "allocator/port/units.h"

namespace frugal {

struct EpochReport {
  int64_t epochs_ended = 0;
  Bytes live;  // handed out now
  std::vector<SiteHistory> sites;
};

// A facet of a DeviceAllocator, whose rules hold here: any thread, and nothing is done once an invariant does not hold.
class BirthRecord {
 public:
  explicit BirthRecord(AllocatorState& state) : state_(state) {}

  // From now on blocks are recorded, as Allocate is told. All that is handed out at this time counts to kNoSite, as
  // born in the first epoch. Does nothing if they are recorded already.
  void Start();

  // See BirthEpochs. These start the record if nothing was recorded.
  void EndEpoch() { Change(&BirthEpochs::EndEpoch); }
  void CollapseEpochs() { Change(&BirthEpochs::CollapseEpochs); }
  void HalveEpochs() { Change(&BirthEpochs::HalveEpochs); }

  // See BirthEpochs. Where nothing was recorded, these have nothing to tell or to change.
  EpochReport Report() const;
  std::vector<SiteUsage> Usages() const;
  void RestartPeak();
  Bytes TakeHighest();

 private:
  void Change(void (BirthEpochs::*change)());
  BirthEpochs& Started() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex);

  AllocatorState& state_;
};

}  // namespace frugal
