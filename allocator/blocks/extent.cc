#include "allocator/blocks/extent.h"

#include <algorithm>

#include "allocator/port/check.h"

namespace frugal {

Extent::Extent(Arena& arena, MemoryKind kind, Address start, Bytes size, BlockFactory& blocks)
    : arena_(arena),
      kind_(kind),
      start_(start),
      size_(size),
      blocks_(blocks),
      first_(blocks.Make(this, start, size, IsMapped(kind) ? BlockState::kHole : BlockState::kFree)),
      starts_(start) {
  FRUGAL_CHECK(kind == MemoryKind::kSegment || start.value() % static_cast<uint64_t>(kPageSize.count()) == 0);
  starts_.Add(first_);
}

Block* Extent::BlockAt(Address address) const {
  Block* block = starts_.LastUpTo(address);
  while (block->address > address) block = block->previous;
  return block;
}

PageRun Extent::WholePages(Address start, Address end) {
  const int64_t first = PagesCovering(start - start_).count();
  const int64_t past = (end - start_).count() / kPageSize.count();
  return PageRun{this, first, std::max<int64_t>(0, past - first)};
}

PageRun Extent::PagesOf(Address start, Address end) {
  const int64_t first = (start - start_).count() / kPageSize.count();
  return PageRun{this, first, PagesCovering(end - start_).count() - first};
}

bool Extent::IsAllocated(Address start, Address end) const {
  for (const Block* block = BlockAt(start); block != nullptr && block->address < end; block = block->next) {
    if (block->state != BlockState::kAllocated) return false;
  }
  return true;
}

Block* Extent::Split(Block* block, Bytes size) {
  Block* rest = blocks_.Make(this, block->address + size, block->size - size, block->state);
  rest->last_use = block->last_use;
  block->size = size;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  starts_.Add(rest);
  return rest;
}

void Extent::AbsorbNext(Block* block) {
  Block* next = block->next;
  starts_.Remove(next);
  block->size += next->size;
  block->next = next->next;
  if (block->next != nullptr) block->next->previous = block;
  blocks_.Discard(next);
}

void Extent::CheckInvariants() const {
  Address expected = start_;
  const Block* previous = nullptr;
  for (const Block* block = first_; block != nullptr; block = block->next) {
    FRUGAL_CHECK(block->extent == this && block->previous == previous && block->address == expected);
    FRUGAL_CHECK(block->size > Bytes(0));
    const bool joins = previous != nullptr && previous->state == block->state;
    FRUGAL_CHECK(!joins || (block->state != BlockState::kFree && block->state != BlockState::kHole));
    if (IsMapped(kind_)) CheckPagesOf(*block);
    expected = block->end();
    previous = block;
  }
  FRUGAL_CHECK(expected == end());
  CheckStarts();
}

void Extent::CheckStarts() const {
  size_t pages = 0;
  for (const Block* block = first_; block != nullptr; block = block->next) {
    if (block->next != nullptr && BlockStarts::AreInOnePage(block->address, block->next->address)) continue;
    ++pages;
    FRUGAL_CHECK(starts_.LastIn(block->address) == block);
  }
  FRUGAL_CHECK(pages == starts_.CountPages());
}

void Extent::CheckPagesOf(const Block& block) const {
  const Bytes offset = block.address - start_;
  const int64_t first = offset.count() / kPageSize.count();
  const int64_t past = PagesCovering(offset + block.size).count();
  if (!block.IsMapped()) FRUGAL_CHECK(RoundDown(offset, kPageSize) == offset);
  // Other blocks that share a page with it say that the page is live.
  if (block.state == BlockState::kClaimed || block.Sleeps()) return;
  for (int64_t page = first; page < past; ++page) {
    FRUGAL_CHECK((pages_.view(page).state == View::State::kLive) == block.IsMapped());
  }
}

}  // namespace frugal
