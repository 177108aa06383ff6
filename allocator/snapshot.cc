// The questions that DeviceAllocator answers about addresses and segments, apart from its work.

#include <optional>
#include <vector>

#include "allocator/device_allocator.h"

namespace frugal {
namespace {

// `births` may be null.
BlockView ViewOf(const Block& block, const BirthEpochs* births) {
  const auto state = block.state == BlockState::kAllocated  ? BlockView::State::kAllocated
                     : block.state == BlockState::kAwaiting ? BlockView::State::kAwaitingStreams
                                                            : BlockView::State::kFree;
  if (!block.IsInUse()) return BlockView{block.address, block.size, Bytes(0), state, nullptr};
  BlockView view{block.address, block.size, block.use.requested, state, block.use.annotation};
  const bool is_recorded = births != nullptr && block.state == BlockState::kAllocated;
  if (is_recorded && block.birth != BirthEpochs::kNoCohort) {
    view.site = births->SiteOf(block.birth);
    view.epoch = births->EpochOf(block.birth);
  }
  return view;
}

SegmentView EmptySegment(const Extent& extent, Address start) {
  SegmentView segment;
  segment.address = start;
  segment.stream = extent.arena().stream();
  segment.small = extent.arena().group() == SizeGroup::kSmall;
  segment.mapped = extent.kind() == Extent::Kind::kMovable;
  return segment;
}

// The runs of mapped blocks of an extent, in the order of addresses.
void AppendSegments(const Extent& extent, const BirthEpochs* births, std::vector<SegmentView>& segments) {
  bool in_run = false;
  for (const Block* block = extent.first_block(); block != nullptr; block = block->next) {
    if (!block->IsMapped()) {
      in_run = false;
      continue;
    }
    if (!in_run) segments.push_back(EmptySegment(extent, block->address));
    in_run = true;
    segments.back().size += block->size;
    segments.back().blocks.push_back(ViewOf(*block, births));
  }
}

const Extent* ExtentWith(const ArenaSet& arenas, Address address) {
  for (const Arena* arena : arenas.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      if (extent->Contains(address)) return extent.get();
    }
  }
  return nullptr;
}

}  // namespace

std::vector<SegmentView> DeviceAllocator::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  std::vector<SegmentView> segments;
  if (!health_.ok()) return segments;
  for (const Arena* arena : arenas_.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) AppendSegments(*extent, births_.get(), segments);
  }
  return segments;
}

std::optional<BlockView> DeviceAllocator::FindBlock(Address address) const {
  absl::MutexLock lock(&mutex_);
  if (!health_.ok()) return std::nullopt;
  if (const Block* exact = allocated_.Find(address); exact != nullptr) return ViewOf(*exact, births_.get());
  const Extent* extent = ExtentWith(arenas_, address);
  const Block* block = extent == nullptr ? nullptr : extent->BlockAt(address);
  if (block == nullptr || block->state != BlockState::kAllocated) return std::nullopt;
  return ViewOf(*block, births_.get());
}

std::optional<SegmentView> DeviceAllocator::FindSegment(Address address) const {
  absl::MutexLock lock(&mutex_);
  if (!health_.ok()) return std::nullopt;
  const Extent* extent = ExtentWith(arenas_, address);
  const Block* block = extent == nullptr ? nullptr : extent->BlockAt(address);
  if (block == nullptr || !block->IsMapped()) return std::nullopt;
  while (block->previous != nullptr && block->previous->IsMapped()) block = block->previous;
  SegmentView segment = EmptySegment(*extent, block->address);
  for (; block != nullptr && block->IsMapped(); block = block->next) segment.size += block->size;
  return segment;
}

bool DeviceAllocator::Owns(Address address) const {
  absl::MutexLock lock(&mutex_);
  return ExtentWith(arenas_, address) != nullptr;
}

Bytes DeviceAllocator::LargestFreeBlock() const {
  absl::MutexLock lock(&mutex_);
  return arenas_.LargestFree();
}

}  // namespace frugal
