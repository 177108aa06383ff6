#include "allocator/birth_record.h"

#include <memory>

#include "absl/synchronization/mutex.h"
#include "allocator/port/check.h"

namespace frugal {

void BirthRecord::Start() {
  absl::MutexLock lock(&state_.mutex);
  if (state_.health.ok()) Started();
}

void BirthRecord::Change(void (BirthEpochs::*change)()) {
  absl::MutexLock lock(&state_.mutex);
  if (!state_.health.ok()) return;
  try {
    (Started().*change)();
    state_.CheckChange();
  } catch (const BrokenInvariant& broken) {
    static_cast<void>(state_.Break(broken));
  }
}

BirthEpochs& BirthRecord::Started() {
  if (state_.births != nullptr) return *state_.births;
  state_.births = std::make_unique<BirthEpochs>();
  for (const Arena* arena : state_.arenas.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (Block* block = extent->first_block(); block != nullptr; block = block->next) {
        // Nobody kept the sites of blocks that are older.
        if (block->IsHandedOut()) block->birth = state_.births->Born(block->size, {kNoSite});
      }
    }
  }
  state_.ledger.RecordBirths(state_.births.get());
  return *state_.births;
}

EpochReport BirthRecord::Report() const {
  absl::MutexLock lock(&state_.mutex);
  const Bytes live(state_.ledger.statistics().allocated_bytes[SizeGroup::kAll].current);
  if (state_.births == nullptr) return {0, live, {}};
  return {state_.births->epochs_ended(), live, state_.births->Histories()};
}

void BirthRecord::RestartPeak() {
  absl::MutexLock lock(&state_.mutex);
  if (state_.births != nullptr) state_.births->RestartPeak();
}

Bytes BirthRecord::TakeHighest() {
  absl::MutexLock lock(&state_.mutex);
  return state_.births == nullptr ? Bytes(0) : state_.births->TakeHighest();
}

std::vector<SiteUsage> BirthRecord::Usages() const {
  absl::MutexLock lock(&state_.mutex);
  return state_.births == nullptr ? std::vector<SiteUsage>() : state_.births->Usages();
}

}  // namespace frugal
