// The books of one device: every change of a block or of a mapped range is entered here, once, so that
// statistics and observers cannot disagree.

#ifndef FRUGAL_ALLOCATOR_LEDGER_H_
#define FRUGAL_ALLOCATOR_LEDGER_H_

#include "allocator/block.h"
#include "allocator/observer.h"
#include "allocator/statistics.h"
#include "allocator/units.h"

namespace frugal {

// Not thread-safe.
class Ledger {
 public:
  const Statistics& statistics() const { return statistics_; }
  Statistics& statistics() { return statistics_; }
  void SetObserver(Observer* observer) { observer_ = observer; }

  void HandedOut(const Block& block);
  // By the caller, whether or not streams are still to pass.
  void GivenBack(const Block& block);
  // Every stream has passed: the block is about to be free.
  void Completed(Block& block);

  // A block entered or left the free index of its arena; its neighbours are as they will stay.
  void BecameFree(Block& block);
  void LeftFree(Block& block);

  // Pages of an extent were filled or vacated. `runs` is the change in the number of mapped runs.
  void Mapped(const Extent& extent, Address start, Bytes size, int runs);
  void Vacated(const Extent& extent, Address start, Bytes size, int runs);

  // Physical memory taken from the device or given back to it, as `calls` handles or segments.
  void Acquired(SizeGroup group, Bytes size, int64_t calls);
  void Relinquished(SizeGroup group, Bytes size, int64_t calls);

  // Physical memory went from ranges of one size group to another's.
  void MovedBetweenGroups(SizeGroup from, SizeGroup to, Bytes size);

 private:
  void CountRuns(SizeGroup group, int runs);
  void Tell(MemoryEvent::Kind kind, const Block& block);

  Statistics statistics_;
  Observer* observer_ = nullptr;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_LEDGER_H_
