#include "allocator/ledger.h"

#include "allocator/arena.h"
#include "allocator/extent.h"

namespace frugal {
namespace {

SizeGroup GroupOf(const Block& block) { return block.extent->arena().group(); }

bool HasMappedNeighbour(const Block& block) {
  return (block.previous != nullptr && block.previous->IsMapped()) || (block.next != nullptr && block.next->IsMapped());
}

}  // namespace

void Ledger::HandedOut(const Block& block) {
  const SizeGroup group = GroupOf(block);
  statistics_.allocation.Increase(group, 1);
  statistics_.active.Increase(group, 1);
  statistics_.allocated_bytes.Increase(group, block.size.count());
  statistics_.active_bytes.Increase(group, block.size.count());
  statistics_.requested_bytes.Increase(group, block.requested.count());
  Tell(MemoryEvent::Kind::kAllocate, block);
}

void Ledger::GivenBack(const Block& block) {
  const SizeGroup group = GroupOf(block);
  statistics_.allocation.Decrease(group, 1);
  statistics_.allocated_bytes.Decrease(group, block.size.count());
  statistics_.requested_bytes.Decrease(group, block.requested.count());
  Tell(MemoryEvent::Kind::kFreeRequested, block);
}

void Ledger::Completed(Block& block) {
  const SizeGroup group = GroupOf(block);
  statistics_.active.Decrease(group, 1);
  statistics_.active_bytes.Decrease(group, block.size.count());
  Tell(MemoryEvent::Kind::kFreeCompleted, block);
  if (block.annotation != nullptr && observer_ != nullptr) observer_->DropAnnotation(block.annotation);
  block.annotation = nullptr;
}

void Ledger::BecameFree(Block& block) {
  block.counted_as_split = HasMappedNeighbour(block);
  if (!block.counted_as_split) return;
  statistics_.inactive_split.Increase(GroupOf(block), 1);
  statistics_.inactive_split_bytes.Increase(GroupOf(block), block.size.count());
}

void Ledger::LeftFree(Block& block) {
  if (!block.counted_as_split) return;
  block.counted_as_split = false;
  statistics_.inactive_split.Decrease(GroupOf(block), 1);
  statistics_.inactive_split_bytes.Decrease(GroupOf(block), block.size.count());
}

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

void Ledger::CountRuns(SizeGroup group, int runs) {
  if (runs > 0) statistics_.segment.Increase(group, runs);
  if (runs < 0) statistics_.segment.Decrease(group, -runs);
}

void Ledger::Tell(MemoryEvent::Kind kind, const Block& block) {
  if (observer_ == nullptr) return;
  observer_->OnMemoryEvent(
      {kind, block.address, block.size, block.requested, block.extent->arena().stream(), block.annotation});
}

}  // namespace frugal
