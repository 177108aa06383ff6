#include "allocator/blocks/ledger.h"

#include "allocator/blocks/arena.h"
#include "allocator/blocks/extent.h"

namespace frugal {

void Ledger::Mapped(const Extent& extent, Address start, Bytes size, int runs) {
  CountRuns(extent.arena().group(), runs);
  if (observer_ == nullptr) return;
  const auto kind =
      extent.kind() == Extent::Kind::kMovable ? MemoryEvent::Kind::kMap : MemoryEvent::Kind::kSegmentAllocate;
  observer_->OnMemoryEvent({kind, start, size, size, extent.arena().stream(), nullptr});
}

void Ledger::Vacated(const Extent& extent, Address start, Bytes size, int runs) {
  CountRuns(extent.arena().group(), runs);
  if (observer_ == nullptr) return;
  const auto kind =
      extent.kind() == Extent::Kind::kMovable ? MemoryEvent::Kind::kUnmap : MemoryEvent::Kind::kSegmentFree;
  observer_->OnMemoryEvent({kind, start, size, size, extent.arena().stream(), nullptr});
}

void Ledger::Acquired(SizeGroup group, Bytes size, int64_t calls) {
  statistics_.reserved_bytes.Increase(group, size.count());
  statistics_.num_device_alloc += calls;
}

void Ledger::Relinquished(SizeGroup group, Bytes size, int64_t calls) {
  statistics_.reserved_bytes.Decrease(group, size.count());
  statistics_.num_device_free += calls;
}

void Ledger::MovedBetweenGroups(SizeGroup from, SizeGroup to, Bytes size) {
  statistics_.reserved_bytes.Move(from, to, size.count());
}

void Ledger::Absorbed(const absl::Status& failure) {
  if (failure.ok()) return;
  ++statistics_.num_driver_failures;
  latest_failure_ = failure;
}

void Ledger::CountRuns(SizeGroup group, int runs) { Change(statistics_.segment, group, runs); }

void Ledger::DropAnnotation(Block& block) {
  if (observer_ != nullptr) observer_->DropAnnotation(block.use.annotation);
  block.use.annotation = nullptr;
}

void Ledger::TellObserver(MemoryEvent::Kind kind, const Block& block) {
  observer_->OnMemoryEvent(
      {kind, block.address, block.size, block.use.requested, block.extent->arena().stream(), block.use.annotation});
}

}  // namespace frugal
