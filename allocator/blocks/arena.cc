#include "allocator/blocks/arena.h"

#include "allocator/port/check.h"

namespace frugal {

Stream OwnerStream(const Block& block) { return block.extent->arena().clock().stream(); }

PoolId OwnerPool(const Block& block) { return block.extent->arena().pool(); }

bool Arena::IsInUse() const {
  for (const std::unique_ptr<Extent>& extent : extents_) {
    for (const Block* block = extent->first_block(); block != nullptr; block = block->next) {
      if (block->IsMapped() && !block->IsFree()) return true;
    }
  }
  return false;
}

Block* Arena::Take(Bytes size) {
  Block* block = free_.BestFit(size);
  if (block == nullptr) return nullptr;
  if (block->size == size) {
    LeaveFree(block);
  } else {
    // What remains stays the block that it was: often it keeps its place in the index.
    Block* remainder = block;
    block = block->extent->InsertBefore(remainder, size);
    ResizeFree(remainder, block->end(), remainder->size - size);
  }
  block->Apply(BlockStep::kHandOut);
  return block;
}

Block* Arena::TakeByTraits(Bytes size) {
  if (traits_.splits) return Take(size);
  Block* const block = free_.BestFit(size);
  if (block == nullptr) return nullptr;
  LeaveFree(block);
  block->Apply(BlockStep::kHandOut);
  return block;
}

Block* Arena::TakePart(Block* whole, Address start, Bytes size) {
  Block* const part = ClaimPart(whole, start, size);
  part->Apply(BlockStep::kUnclaim);
  part->Apply(BlockStep::kHandOut);
  return part;
}

Block* Arena::PutBack(Block* block, BlockStep step) {
  block->Apply(step);
  block->last_use = static_cast<uint32_t>(clock_.now());
  return EnterFreeMerged(block);
}

Extent& Arena::AddExtent(Address start, Bytes size) {
  extents_.push_back(std::make_unique<Extent>(*this, kind_, start, size, blocks_));
  Extent& extent = *extents_.back();
  if (IsMapped(kind_)) {
    holes_.emplace(start, extent.first_block());
  } else {
    MappingChanged(MemoryEvent::Kind::kSegmentAllocate, start, size, 1);
    EnterFree(extent.first_block());
  }
  return extent;
}

void Arena::RemoveExtent(Extent& extent) {
  Block* only = extent.first_block();
  FRUGAL_CHECK(only->size == extent.size());
  if (IsMapped(kind_)) {
    FRUGAL_CHECK(only->state == BlockState::kHole);
    holes_.erase(only->address);
  } else {
    FRUGAL_CHECK(only->state == BlockState::kFree);
    LeaveFree(only);
    MappingChanged(MemoryEvent::Kind::kSegmentFree, extent.start(), extent.size(), -1);
  }
  blocks_.Discard(only);
  std::erase_if(extents_, [&extent](const std::unique_ptr<Extent>& other) { return other.get() == &extent; });
}

void Arena::Fill(PageRun run) {
  const Address start = run.address();
  const Bytes size = run.size();
  auto it = holes_.upper_bound(start);
  FRUGAL_CHECK(it != holes_.begin());
  Block* hole = std::prev(it)->second;
  holes_.erase(std::prev(it));
  Block* filled = CutOut(hole, start, size);
  MappingChanged(MemoryEvent::Kind::kMap, start, size, RunsChange(*filled, +1));
  filled->Apply(BlockStep::kFill);
  filled->last_use = static_cast<uint32_t>(clock_.now());
  for (Block* rest : {filled->previous, filled->next}) {
    if (rest != nullptr && rest->state == BlockState::kHole) holes_.emplace(rest->address, rest);
  }
  EnterFreeMerged(filled);
}

void Arena::Vacate(Block* whole, PageRun run) {
  const Address start = run.address();
  const Bytes size = run.size();
  FRUGAL_CHECK(whole->state == BlockState::kFree);
  LeaveFree(whole);
  Block* vacated = CutOut(whole, start, size);
  MappingChanged(MemoryEvent::Kind::kUnmap, start, size, RunsChange(*vacated, -1));
  vacated->Apply(BlockStep::kVacate);
  for (Block* rest : {vacated->previous, vacated->next}) {
    if (rest != nullptr && rest->state == BlockState::kFree) EnterFree(rest);
  }
  EnterHoleMerged(vacated);
}

Block* Arena::ClaimPart(Block* whole, Address start, Bytes size) {
  FRUGAL_CHECK(whole->state == BlockState::kFree);
  LeaveFree(whole);
  Block* claimed = CutOut(whole, start, size);
  claimed->Apply(BlockStep::kClaim);
  for (Block* rest : {claimed->previous, claimed->next}) {
    if (rest != nullptr && rest->state == BlockState::kFree) EnterFree(rest);
  }
  return claimed;
}

Block* Arena::Unclaim(Block* claimed) {
  claimed->Apply(BlockStep::kUnclaim);
  // Those beside it may have become free meanwhile, after later uses.
  for (const Block* beside : {claimed->previous, claimed->next}) {
    if (beside == nullptr || !beside->IsFree()) continue;
    if (clock_.Expand(beside->last_use) > clock_.Expand(claimed->last_use)) claimed->last_use = beside->last_use;
  }
  return EnterFreeMerged(claimed);
}

void Arena::Vacate(Block* claimed) {
  Emptied({claimed->extent, (claimed->address - claimed->extent->start()).count() / kPageSize.count(),
           claimed->size.count() / kPageSize.count()});
  BecomeHole(claimed);
}

void Arena::BecomeHole(Block* claimed) {
  ledger_.RunsChanged(group_, RunsChange(*claimed, -1));
  claimed->Apply(BlockStep::kUnclaim);
  claimed->Apply(BlockStep::kVacate);
  // They have a neighbour less.
  for (Block* beside : {claimed->previous, claimed->next}) {
    if (beside != nullptr && beside->IsFree()) ledger_.FreeResized(*beside, group_, beside->size);
  }
  EnterHoleMerged(claimed);
}

void Arena::EnterFree(Block* block) {
  free_.Insert(block);
  ledger_.BecameFree(*block, group_);
}

void Arena::LeaveFree(Block* block) {
  free_.Remove(block);
  ledger_.LeftFree(*block, group_);
}

Block* Arena::EnterFreeMerged(Block* block) {
  Extent& extent = *block->extent;
  Block* const previous = block->previous != nullptr && block->previous->IsFree() ? block->previous : nullptr;
  Block* const next = block->next != nullptr && block->next->IsFree() ? block->next : nullptr;
  // The latest use of all is that of `block`: it has just become free.
  const uint32_t last_use = block->last_use;
  Block* whole = block;
  if (next != nullptr) {
    // The one at the end is most often the rest that everything was cut from: it grows, and keeps its place.
    Address start = block->address;
    if (previous != nullptr) {
      start = previous->address;
      LeaveFree(previous);
    }
    extent.UnlinkIntoNext(next, start);
    ResizeFree(next, start, next->end() - start);
    whole = next;
  } else if (previous != nullptr) {
    const Bytes size = previous->size + block->size;
    extent.UnlinkIntoPrevious(block);
    ResizeFree(previous, previous->address, size);
    whole = previous;
  } else {
    EnterFree(block);
  }
  whole->last_use = last_use;
  return whole;
}

void Arena::EnterHoleMerged(Block* block) {
  Extent& extent = *block->extent;
  if (block->next != nullptr && block->next->state == BlockState::kHole) {
    holes_.erase(block->next->address);
    extent.AbsorbNext(block);
  }
  if (block->previous != nullptr && block->previous->state == BlockState::kHole) {
    block = block->previous;
    extent.AbsorbNext(block);
  } else {
    holes_.emplace(block->address, block);
  }
}

Block* Arena::CutOut(Block* whole, Address start, Bytes size) {
  Block* block = whole;
  if (block->address < start) block = block->extent->Split(block, start - block->address);
  if (block->size > size) block->extent->Split(block, size);
  return block;
}

int Arena::RunsChange(const Block& block, int sign) {
  const int left = block.previous != nullptr && block.previous->IsMapped() ? 1 : 0;
  const int right = block.next != nullptr && block.next->IsMapped() ? 1 : 0;
  return sign * (1 - left - right);
}

void Arena::CheckInvariants() const {
  size_t free_blocks = 0;
  size_t holes = 0;
  for (const std::unique_ptr<Extent>& extent : extents_) {
    extent->CheckInvariants();
    for (Block* block = extent->first_block(); block != nullptr; block = block->next) {
      if (block->state == BlockState::kFree) ++free_blocks;
      if (block->state != BlockState::kHole) continue;
      ++holes;
      auto hole = holes_.find(block->address);
      FRUGAL_CHECK(hole != holes_.end() && hole->second == block);
    }
  }
  FRUGAL_CHECK(free_blocks == free_.size() && holes == holes_.size());
}

}  // namespace frugal
