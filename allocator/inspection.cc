#include "allocator/inspection.h"

#include <memory>

#include "absl/synchronization/mutex.h"
#include "allocator/stitching/unusable.h"

namespace frugal {
namespace {

BlockView::State StateOf(const Block& block) {
  if (block.IsHandedOut()) return BlockView::State::kAllocated;
  if (block.state == BlockState::kAwaiting) return BlockView::State::kAwaitingStreams;
  return block.IsFree() ? BlockView::State::kFree : BlockView::State::kSetAside;
}

SegmentView EmptySegment(const Extent& extent, Address start) {
  SegmentView segment;
  segment.address = start;
  segment.stream = extent.arena().clock().stream();
  segment.pool = extent.arena().pool();
  segment.small = extent.arena().group() == SizeGroup::kSmall;
  segment.mapped = IsMapped(extent.kind());
  segment.fixed = extent.kind() == MemoryKind::kFixed;
  return segment;
}

// Those without memory that the block lies in, but one that it shares with the block before.
Bytes EmptyPagesFrom(const Block& block) {
  const Extent& extent = *block.extent;
  if (!IsMapped(extent.kind())) return Bytes(0);
  int64_t empty = 0;
  for (int64_t page = PagesCovering(block.address - extent.start()).count();
       Pages(page).bytes() < block.end() - extent.start(); ++page) {
    empty += extent.pages().view(page).state == View::State::kLive ? 0 : 1;
  }
  return Pages(empty).bytes();
}

// The runs of mapped blocks of an extent, in the order of addresses.
void AppendSegments(const Extent& extent, const AllocatorState& state, std::vector<SegmentView>& segments)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
  bool in_run = false;
  for (const Block* block = extent.first_block(); block != nullptr; block = block->next) {
    if (!block->IsMapped()) {
      in_run = false;
      continue;
    }
    if (!in_run) segments.push_back(EmptySegment(extent, block->address));
    in_run = true;
    segments.back().size += block->size;
    segments.back().blocks.push_back(ViewOf(*block, state));
    if (block->IsFree()) {
      segments.back().unusable += UnusablePart(*block);
      segments.back().kept += KeptPart(*block);
    }
    if (block->Sleeps() || block->state == BlockState::kClaimed) {
      segments.back().emptied += EmptyPagesFrom(*block);
    }
  }
}

}  // namespace

BlockView ViewOf(const Block& block, const AllocatorState& state) {
  const std::optional<uint8_t> of_pool = state.pools.TagOf(block.extent->arena());
  BlockView view{block.address, block.size, Bytes(0), StateOf(block), nullptr};
  if (of_pool.has_value()) {
    view.tag = *of_pool;
  } else if (block.IsHandedOut()) {
    view.tag = block.tag;
  }
  if (!block.IsInUse()) return view;
  view.requested = block.use.requested;
  view.annotation = block.use.annotation;
  if (state.births != nullptr && block.IsHandedOut() && block.birth != BirthEpochs::kNoCohort) {
    view.site = state.births->SiteOf(block.birth);
    view.epoch = state.births->EpochOf(block.birth);
  }
  view.asleep = block.state == BlockState::kAsleep;
  return view;
}

std::vector<SegmentView> Inspection::Snapshot(const OnlyPool& only) const {
  absl::MutexLock lock(&state_.mutex);
  std::vector<SegmentView> segments;
  if (!state_.health.ok()) return segments;
  for (const Arena* arena : state_.arenas.all()) {
    if (!Includes(only, arena->pool())) continue;
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      AppendSegments(*extent, state_, segments);
    }
  }
  return segments;
}

std::optional<BlockView> Inspection::FindBlock(Address address) const {
  absl::MutexLock lock(&state_.mutex);
  if (!state_.health.ok()) return std::nullopt;
  if (const Block* exact = state_.allocated.Find(address); exact != nullptr) return ViewOf(*exact, state_);
  const Extent* extent = state_.arenas.ExtentWith(address);
  const Block* block = extent == nullptr ? nullptr : extent->BlockAt(address);
  if (block == nullptr || !block->IsHandedOut()) return std::nullopt;
  return ViewOf(*block, state_);
}

std::optional<SegmentView> Inspection::FindSegment(Address address) const {
  absl::MutexLock lock(&state_.mutex);
  if (!state_.health.ok()) return std::nullopt;
  const Extent* extent = state_.arenas.ExtentWith(address);
  const Block* block = extent == nullptr ? nullptr : extent->BlockAt(address);
  if (block == nullptr || !block->IsMapped()) return std::nullopt;
  while (block->previous != nullptr && block->previous->IsMapped()) block = block->previous;
  SegmentView segment = EmptySegment(*extent, block->address);
  for (; block != nullptr && block->IsMapped(); block = block->next) segment.size += block->size;
  return segment;
}

Bytes Inspection::LargestFreeBlock() const {
  absl::MutexLock lock(&state_.mutex);
  return state_.arenas.LargestFree();
}

std::vector<Stream> Inspection::StreamsOf(Address address) const {
  absl::MutexLock lock(&state_.mutex);
  Block* const block = state_.health.ok() ? state_.allocated.Find(address) : nullptr;
  if (block == nullptr) return {};
  std::vector<Stream> streams = {OwnerStream(*block)};
  if (const auto others = state_.other_streams.find(block); others != state_.other_streams.end()) {
    streams.insert(streams.end(), others->second.begin(), others->second.end());
  }
  return streams;
}

Bytes Inspection::Held() const {
  absl::MutexLock lock(&state_.mutex);
  return state_.backing->held();
}

void Inspection::CheckInvariants() const {
  absl::MutexLock lock(&state_.mutex);
  state_.CheckInvariants();
}

absl::Status Inspection::Health() const {
  absl::MutexLock lock(&state_.mutex);
  return state_.health;
}

}  // namespace frugal
