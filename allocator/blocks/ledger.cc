#include "allocator/blocks/ledger.h"

namespace frugal {

void Ledger::Acquired(SizeGroup group, Bytes size) {
  statistics_.reserved_bytes.Increase(group, size.count());
  ++statistics_.num_device_alloc;
}

void Ledger::Relinquished(SizeGroup group, Bytes size) {
  statistics_.reserved_bytes.Decrease(group, size.count());
  ++statistics_.num_device_free;
}

void Ledger::MovedBetweenGroups(SizeGroup from, SizeGroup to, Bytes size) {
  statistics_.reserved_bytes.Move(from, to, size.count());
}

void Ledger::DropAnnotation(Block& block) {
  if (observers_.is_watched()) observers_.NoteDropped(block.use.annotation);
  block.use.annotation = nullptr;
}

void Ledger::Note(MemoryEvent::Kind kind, const Block& block) {
  observers_.Note({kind, block.address, block.size, block.use.requested, OwnerStream(block), block.use.annotation,
                   nullptr, OwnerPool(block)});
}

}  // namespace frugal
