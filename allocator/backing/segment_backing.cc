#include "allocator/backing/segment_backing.h"

#include <memory>
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
  memory_limit_.shared().GiveBack(held_);
  FRUGAL_CHECK(status.ok());
}

absl::Status SegmentBacking::Extend(Arena& arena, Bytes size, WaitPolicy wait_policy) {
  absl::Status status = AddSegment(arena, size);
  if (!absl::IsResourceExhausted(status) || wait_policy != WaitPolicy::kWithHostWaits) return status;
  WaitForFreeSegments();
  absl::StatusOr<Bytes> returned = ReturnFree(kUnlimited, std::nullopt);
  if (!returned.ok()) return returned.status();
  return *returned > Bytes(0) ? AddSegment(arena, size) : status;
}

absl::Status SegmentBacking::AddSegment(Arena& arena, Bytes size) {
  const Bytes segment = SegmentSize(arena.group(), size);
  const absl::StatusOr<MemoryInfo> device = memory_limit_.Ask();
  if (!device.ok()) return device.status();
  absl::StatusOr<Reservation> promised = memory_limit_.Reserve(*device, segment);
  if (!promised.ok()) return promised.status();
  const absl::StatusOr<Address> start = lock_.DuringDriverCall([&] { return device_.Malloc(segment); });
  if (!start.ok()) return start.status();
  promised->Redeem(segment);
  held_ += segment;
  ledger_.Acquired(arena.group(), segment);
  arena.AddExtent(Extent::Kind::kSegment, *start, segment);
  directory_.Insert(*start, segment, owner_);
  return absl::OkStatus();
}

void SegmentBacking::WaitForFreeSegments() {
  for (const Arena* arena : arenas_.all()) {
    for (const std::unique_ptr<Extent>& segment : arena->extents()) {
      if (!IsWhollyFree(*segment)) continue;
      // Where a stream is captured or the driver fails, some of them stay.
      static_cast<void>(clocks_.WaitForAll());
      return;
    }
  }
}

absl::StatusOr<Bytes> SegmentBacking::ReturnFree(Bytes enough, const OnlyPool& only) {
  // As with views, all known streams are asked: a program may have forgotten to say that one uses the memory.
  const StreamClocks::Era era = clocks_.era() - 1;
  return ReturnSegments(enough, [era, &only](const Block& block, StreamQuestions& questions) {
    if (!Includes(only, OwnerPool(block))) return false;
    StreamClock& clock = block.extent->arena().clock();
    return questions.HaveLeft(era, clock, clock.Expand(block.last_use));
  });
}

absl::StatusOr<Bytes> SegmentBacking::ReturnIdle(Bytes enough, const UseMarks& marks) {
  if (marks.era() == 0) return Bytes(0);
  // Where the wait fails, the memory stays.
  if (clocks_.NeedsHost(marks.era()) && clocks_.IsQuiet()) clocks_.TryWaitForAll();
  if (!clocks_.HasPassed(marks.era())) return Bytes(0);
  return ReturnSegments(
      enough, [&marks](const Block& block, StreamQuestions& questions) { return marks.IsIdle(block, questions); });
}

absl::StatusOr<Bytes> SegmentBacking::ReturnSegments(Bytes enough, Goes goes) {
  StreamQuestions questions(clocks_, ledger_);
  std::vector<Block*> leaving = questions.Choose([&] {
    std::vector<Block*> chosen;
    Bytes size;
    for (const Arena* arena : arenas_.all()) {
      for (const std::unique_ptr<Extent>& segment : arena->extents()) {
        if (size >= enough || !IsWhollyFree(*segment) || !goes(*segment->first_block(), questions)) continue;
        size += segment->size();
        chosen.push_back(segment->first_block());
      }
    }
    return chosen;
  });
  for (Block*& block : leaving) block = block->extent->arena().Claim(block);
  Bytes returned;
  absl::Status status;
  for (Block* block : leaving) {
    const Bytes size = block->size;
    if (status.ok()) {
      status = ReturnSegment(block);
      if (status.ok()) returned += size;
    } else {
      block->extent->arena().Unclaim(block);
    }
  }
  if (!status.ok()) return status;
  return returned;
}

absl::Status SegmentBacking::ReturnSegment(Block* claimed) {
  Extent& segment = *claimed->extent;
  Arena& arena = segment.arena();
  // Before the driver's call, since from then on it may give the addresses to others.
  directory_.Erase(segment.start());
  absl::Status status = lock_.DuringDriverCall([&] {
    absl::Status freed = device_.Free(segment.start());
    if (!freed.ok()) directory_.Insert(segment.start(), segment.size(), owner_);
    return freed;
  });
  arena.Unclaim(claimed);
  if (!status.ok()) return status;
  held_ -= segment.size();
  memory_limit_.shared().GiveBack(segment.size());
  ledger_.Relinquished(arena.group(), segment.size());
  arena.RemoveExtent(segment);
  return absl::OkStatus();
}

void SegmentBacking::CheckInvariants() const {
  FRUGAL_CHECK(ledger_.statistics().reserved_bytes[SizeGroup::kAll].current == held_.count());
}

}  // namespace frugal
