#include "allocator/backing/segment_backing.h"

#include <vector>

#include "allocator/port/check.h"

namespace frugal {
namespace {

// PyTorch's own sizes: a segment for each block of 10 MiB and more, shared ones for the rest.
constexpr Bytes kSharedSegment = MiB(20);
constexpr Bytes kLargestShared = MiB(10);

bool IsWhollyFree(const Extent& segment) {
  const Block* first = segment.first_block();
  return first->state == BlockState::kFree && first->size == segment.size();
}

Bytes SegmentSize(SizeGroup group, Bytes request) {
  if (group == SizeGroup::kSmall) return kPageSize;
  if (request < kLargestShared) return kSharedSegment;
  return RoundUp(request, kPageSize);
}

}  // namespace

SegmentBacking::~SegmentBacking() {
  absl::Status status;
  for (const Arena* arena : arenas_.all()) {
    for (const std::unique_ptr<Extent>& segment : arena->extents()) {
      directory_.Erase(segment->start());
      status.Update(device_.Free(segment->start()));
    }
  }
  FRUGAL_CHECK(status.ok());
}

absl::Status SegmentBacking::Extend(Arena& arena, Bytes size, WaitPolicy wait_policy) {
  absl::Status status = AddSegment(arena, size);
  if (!absl::IsResourceExhausted(status) || wait_policy != WaitPolicy::kWithHostWaits) return status;
  absl::StatusOr<Bytes> returned = ReturnFree(kUnlimited);
  if (!returned.ok()) return returned.status();
  return *returned > Bytes(0) ? AddSegment(arena, size) : status;
}

absl::Status SegmentBacking::AddSegment(Arena& arena, Bytes size) {
  const Bytes segment = SegmentSize(arena.group(), size);
  const absl::StatusOr<MemoryInfo> device = memory_limit_.Ask();
  if (!device.ok()) return device.status();
  absl::Status allowed = memory_limit_.Allow(*device, held_, segment);
  if (!allowed.ok()) return allowed;
  const absl::StatusOr<Address> start = lock_.DuringDriverCall([&] { return device_.Malloc(segment); });
  if (!start.ok()) return start.status();
  held_ += segment;
  ledger_.Acquired(arena.group(), segment);
  arena.AddExtent(Extent::Kind::kSegment, *start, segment);
  directory_.Insert(*start, segment, owner_);
  return absl::OkStatus();
}

absl::StatusOr<Bytes> SegmentBacking::ReturnFree(Bytes enough) {
  return ReturnSegments(enough, [](const Block&) { return true; });
}

absl::StatusOr<Bytes> SegmentBacking::ReturnIdle(Bytes enough, const UseMarks& marks) {
  return ReturnSegments(enough, [&marks](const Block& block) { return marks.IsIdle(block); });
}

absl::StatusOr<Bytes> SegmentBacking::ReturnSegments(Bytes enough,
                                                     absl::FunctionRef<absl::StatusOr<bool>(const Block&)> wants) {
  Bytes returned;
  // A copy: new streams may come while the driver works.
  for (Arena* arena : std::vector<Arena*>(arenas_.all())) {
    std::vector<Extent*> segments;
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      if (IsWhollyFree(*extent)) segments.push_back(extent.get());
    }
    for (Extent* segment : segments) {
      if (returned >= enough) return returned;
      // Others may have taken it while the driver worked.
      if (!IsWhollyFree(*segment)) continue;
      const absl::StatusOr<bool> wanted = wants(*segment->first_block());
      if (!wanted.ok()) return wanted.status();
      if (!*wanted) continue;
      const Bytes size = segment->size();
      absl::Status status = ReturnSegment(*arena, *segment);
      if (!status.ok()) return status;
      returned += size;
    }
  }
  return returned;
}

absl::Status SegmentBacking::ReturnSegment(Arena& arena, Extent& segment) {
  Block* const claimed = arena.Claim(segment.first_block());
  absl::Status status = lock_.DuringDriverCall([&] { return device_.Free(segment.start()); });
  arena.Unclaim(claimed);
  if (!status.ok()) return status;
  held_ -= segment.size();
  ledger_.Relinquished(arena.group(), segment.size());
  directory_.Erase(segment.start());
  arena.RemoveExtent(segment);
  return absl::OkStatus();
}

void SegmentBacking::CheckInvariants() const {
  FRUGAL_CHECK(ledger_.statistics().reserved_bytes[SizeGroup::kAll].current == held_.count());
}

}  // namespace frugal
