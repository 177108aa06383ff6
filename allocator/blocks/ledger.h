// The accounting of one device: every change of a block or of a mapped range, and every count, is entered here, once,
// so that statistics and observers cannot disagree.

#pragma once

#include "absl/base/attributes.h"
#include "allocator/births/birth_epochs.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/driver_failures.h"
#include "allocator/blocks/observer_queue.h"
#include "allocator/blocks/statistics.h"
#include "allocator/port/observer.h"
#include "allocator/port/units.h"

namespace frugal {

// What is handed out counts by its size, as with PyTorch's allocators, wherever it lies; all else by `group`, that of
// the block's arena. Not thread-safe.
class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const Statistics& statistics() const { return statistics_; }
  ObserverQueue& observers() { return observers_; }
  // From now on blocks are entered in `births`, which outlives the ledger. Those handed out before must carry theirs.
  void RecordBirths(BirthEpochs* births) { births_ = births; }

  ABSL_ATTRIBUTE_ALWAYS_INLINE void HandedOut(Block& block, Sample sample) {
    const SizeGroup group = GroupOf(block);
    statistics_.allocation.Increase(group, 1);
    statistics_.allocated_bytes.Increase(group, block.size.count());
    statistics_.requested_bytes.Increase(group, block.use.requested.count());
    if (blocks_awaiting_ != 0) [[unlikely]] {
      statistics_.awaiting.NotePeaks(statistics_.allocation, group);
      statistics_.awaiting_bytes.NotePeaks(statistics_.allocated_bytes, group);
    }
    block.birth = BirthEpochs::kNoCohort;
    if (observers_.is_watched() || sample.site != kUnsampled) [[unlikely]]
      NoteHandedOut(block, sample);
  }
  // By the caller; Deferred follows if streams are still to pass, else Completed.
  void GivenBack(const Block& block) {
    const SizeGroup group = GroupOf(block);
    statistics_.allocation.Decrease(group, 1);
    statistics_.allocated_bytes.Decrease(group, block.size.count());
    statistics_.requested_bytes.Decrease(group, block.use.requested.count());
    if (observers_.is_watched() || block.birth != BirthEpochs::kNoCohort) [[unlikely]]
      NoteGivenBack(block);
  }
  void Deferred(const Block& block) {
    const SizeGroup group = GroupOf(block);
    ++blocks_awaiting_;
    statistics_.awaiting.Begin(group, 1);
    statistics_.awaiting_bytes.Begin(group, block.size.count());
  }
  // Every stream has passed: the block, awaiting if it was deferred, is about to be free.
  void Completed(Block& block) {
    if (block.state == BlockState::kAwaiting) [[unlikely]] {
      const SizeGroup group = GroupOf(block);
      --blocks_awaiting_;
      statistics_.awaiting.End(group, 1);
      statistics_.awaiting_bytes.End(group, block.size.count());
    }
    if (observers_.is_watched()) [[unlikely]]
      Note(MemoryEvent::Kind::kFreeCompleted, block);
    if (block.use.annotation != nullptr) [[unlikely]]
      DropAnnotation(block);
  }

  // A block entered or left the free index of its arena; its neighbours are as they will stay.
  void BecameFree(Block& block, SizeGroup group) {
    if (HasMappedNeighbour(block)) BeginSplit(block, group);
  }
  void LeftFree(Block& block, SizeGroup group) {
    if (block.counted_as_split) EndSplit(block, group, block.size);
  }
  // A free block that had `before` bytes became larger or smaller, and its neighbours others.
  void FreeResized(Block& block, SizeGroup group, Bytes before) {
    if (!HasMappedNeighbour(block)) {
      if (block.counted_as_split) EndSplit(block, group, before);
    } else if (block.counted_as_split) {
      Change(statistics_.inactive_split_bytes, group, (block.size - before).count());
    } else {
      BeginSplit(block, group);
    }
  }

  // Memory was mapped, or unmapped, as `event` says. `runs` is the change in the number of mapped runs.
  void MappingChanged(const MemoryEvent& event, SizeGroup group, int runs) {
    Change(statistics_.segment, group, runs);
    if (observers_.is_watched()) observers_.Note(event);
  }

  // The number of mapped runs has changed, and nothing that was mapped.
  void RunsChanged(SizeGroup group, int runs) { Change(statistics_.segment, group, runs); }

  // A handle or a segment was taken from the device, or given back to it.
  void Acquired(SizeGroup group, Bytes size);
  void Relinquished(SizeGroup group, Bytes size);

  // Physical memory went from ranges of one size group to another's.
  void MovedBetweenGroups(SizeGroup from, SizeGroup to, Bytes size);

  // What the allocator did for a request. A range was built of handles of which so many pages were held already.
  void Stitched(Pages held) {
    ++statistics_.num_stitches;
    statistics_.num_stitched_pages += held.count();
  }
  // A wait was put into a stream.
  void StreamWaited() { ++statistics_.num_stream_waits; }
  // The host waited for outstanding work.
  void HostWaited() { ++statistics_.num_sync_all_streams; }
  // Others are asked for memory before the request can be served.
  void Retried() { ++statistics_.num_alloc_retries; }
  void RanOutOfMemory() { ++statistics_.num_ooms; }
  DriverFailures& failures() { return failures_; }

  void ResetPeaks() { statistics_.ResetPeaks(); }
  void ResetAccumulated() { statistics_.ResetAccumulated(); }

 private:
  static SizeGroup GroupOf(const Block& block) {
    return block.size > kSmallLimit ? SizeGroup::kLarge : SizeGroup::kSmall;
  }
  static bool HasMappedNeighbour(const Block& block) {
    return (block.previous != nullptr && block.previous->IsMapped()) ||
           (block.next != nullptr && block.next->IsMapped());
  }
  // The block is an inactive split block from now on.
  void BeginSplit(Block& block, SizeGroup group) {
    block.counted_as_split = true;
    statistics_.inactive_split.Increase(group, 1);
    statistics_.inactive_split_bytes.Increase(group, block.size.count());
  }
  // No longer: it was counted with `before` bytes.
  void EndSplit(Block& block, SizeGroup group, Bytes before) {
    block.counted_as_split = false;
    statistics_.inactive_split.Decrease(group, 1);
    statistics_.inactive_split_bytes.Decrease(group, before.count());
  }
  static void Change(GroupedCounter& counter, SizeGroup group, int64_t amount) {
    if (amount > 0) counter.Increase(group, amount);
    if (amount < 0) counter.Decrease(group, -amount);
  }

  void DropAnnotation(Block& block);
  // In their callers, where they take half the instructions that calls would.
  void NoteHandedOut(Block& block, Sample sample) {
    if (births_ != nullptr) block.birth = births_->Born(block.size, sample);
    if (observers_.is_watched()) Note(MemoryEvent::Kind::kAllocate, block);
  }
  void NoteGivenBack(const Block& block) {
    if (births_ != nullptr) births_->Died(block.birth, block.size);
    if (observers_.is_watched()) Note(MemoryEvent::Kind::kFreeRequested, block);
  }
  void Note(MemoryEvent::Kind kind, const Block& block);

  Statistics statistics_;
  int64_t blocks_awaiting_ = 0;
  ObserverQueue observers_;
  BirthEpochs* births_ = nullptr;
  DriverFailures failures_{statistics_.num_driver_failures};
};

}  // namespace frugal
