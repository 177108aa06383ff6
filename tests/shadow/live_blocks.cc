#include "tests/shadow/live_blocks.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace frugal::shadow {

void LiveBlocks::Add(uint32_t name, const LiveBlock& block) {
  bytes_ += block.size;
  requested_ += block.requested;
  peak_ = std::max(peak_, bytes_);
  blocks_.emplace(name, Placed{block, names_.size()});
  names_.push_back(name);
}

LiveBlock LiveBlocks::Remove(uint32_t name) {
  const auto [block, index] = blocks_.at(name);
  names_[index] = names_.back();
  blocks_.at(names_.back()).index = index;
  names_.pop_back();
  blocks_.erase(name);
  bytes_ -= block.size;
  requested_ -= block.requested;
  return block;
}

LiveBlock* LiveBlocks::Find(uint32_t name) {
  const auto it = blocks_.find(name);
  return it == blocks_.end() ? nullptr : &it->second.block;
}

const LiveBlock* LiveBlocks::Find(uint32_t name) const {
  const auto it = blocks_.find(name);
  return it == blocks_.end() ? nullptr : &it->second.block;
}

void LiveBlocks::CheckSnapshot(const DeviceAllocator& allocator, bool may_have_spares, Verdict& verdict) const {
  int64_t seen = 0;
  Bytes mapped;
  for (const SegmentView& segment : allocator.inspect().Snapshot()) {
    mapped += segment.size - segment.emptied;
    Address at = segment.address;
    for (const BlockView& block : segment.blocks) {
      if (block.address != at) verdict.Fail("a segment of the snapshot has a gap");
      at = at + block.size;
      if (block.state != BlockView::State::kAllocated) continue;
      ++seen;
      const LiveBlock* const live = Find(NameOf(block.annotation));
      if (live == nullptr || live->address != block.address || live->size != block.size ||
          live->requested != block.requested || live->stream != segment.stream) {
        verdict.Fail("the snapshot has a block that was not handed out so");
      }
    }
    if (at != segment.address + segment.size) verdict.Fail("the blocks of a segment do not fill it");
  }
  verdict.Expect("blocks in the snapshot", seen, count());
  const int64_t reserved = allocator.GetStatistics().reserved_bytes[SizeGroup::kAll].current;
  if (!may_have_spares || mapped.count() > reserved) verdict.Expect("bytes in the snapshot", mapped.count(), reserved);
}

void LiveBlocks::CheckNothingFits(const DeviceAllocator& allocator, Bytes size, Stream stream, MemorySource source,
                                  Verdict& verdict) {
  for (const SegmentView& segment : allocator.inspect().Snapshot()) {
    if (segment.stream != stream || segment.pool != source.pool) continue;
    if (source.kind == MemoryKind::kSegment && segment.mapped) continue;
    for (const BlockView& block : segment.blocks) {
      if (block.state != BlockView::State::kFree || block.size < size) continue;
      verdict.Fail(absl::StrFormat("out of memory for %d bytes on stream %d, which has a free block of %d bytes",
                                   size.count(), stream.id, block.size.count()));
    }
  }
}

}  // namespace frugal::shadow
