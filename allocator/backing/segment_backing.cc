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
  for (const Arena* arena : arenas_.segments()) {
    for (const std::unique_ptr<Extent>& segment : arena->extents()) {
      directory_.Erase(segment->start());
      status.Update(FreeIn(arena->traits().source.get(), segment->start()));
    }
  }
  memory_limit_.shared().GiveBack(held_);
  FRUGAL_CHECK(status.ok());
}

absl::Status SegmentBacking::Extend(Arena& arena, Bytes size, WaitPolicy wait_policy) {
  absl::Status status = Grow(arena, size, wait_policy);
  if (!absl::IsResourceExhausted(status) || wait_policy != WaitPolicy::kWithHostWaits) return status;
  WaitForFreeSegments();
  absl::StatusOr<Bytes> returned = ReturnFree(kUnlimited, std::nullopt);
  if (!returned.ok()) return returned.status();
  return *returned > Bytes(0) ? Grow(arena, size, wait_policy) : status;
}

absl::Status SegmentBacking::Grow(Arena& arena, Bytes size, WaitPolicy wait_policy) {
  const Bytes usual = SegmentSize(arena.group(), size);
  const Bytes least = RoundUp(size, kPageSize);
  absl::Status status = AddSegment(arena, usual, wait_policy);
  return absl::IsResourceExhausted(status) && least < usual ? AddSegment(arena, least, wait_policy) : status;
}

absl::Status SegmentBacking::AddSegment(Arena& arena, Bytes segment, WaitPolicy wait_policy) {
  const std::shared_ptr<SegmentSource> source = arena.traits().source;
  absl::StatusOr<MemoryInfo> device = memory_limit_.Ask();
  if (!device.ok()) return device.status();
  // What a source of the program's has, it alone knows: it may be the host's.
  if (source != nullptr) device->free = kUnlimited;
  const Bytes left = wait_policy >= WaitPolicy::kIntoReserve ? Bytes(0) : memory_limit_.reserve();
  absl::StatusOr<Reservation> promised = memory_limit_.Reserve(*device, segment, left);
  if (!promised.ok()) return promised.status();
  const absl::StatusOr<Address> start = source != nullptr
                                            ? lock_.DuringForeignCall([&] { return source->Malloc(segment); })
                                            : lock_.DuringDriverCall([&] { return device_.Malloc(segment); });
  if (!start.ok()) return start.status();
  promised->Redeem(segment);
  held_ += segment;
  ledger_.Acquired(arena.group(), segment);
  arena.AddExtent(*start, segment);
  directory_.Insert(*start, segment, owner_);
  return absl::OkStatus();
}

void SegmentBacking::WaitForFreeSegments() {
  for (const Arena* arena : arenas_.segments()) {
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
  // To free one may wait for the device, which a capture does not survive.
  if (held_ == Bytes(0) || clocks_.MayCapture()) return Bytes(0);
  StreamQuestions questions(clocks_, ledger_);
  std::vector<Block*> leaving = questions.Choose([&] {
    std::vector<Block*> chosen;
    Bytes size;
    for (const Arena* arena : arenas_.segments()) {
      if (arena->is_kept()) continue;
      for (const std::unique_ptr<Extent>& segment : arena->extents()) {
        if (size >= enough || !IsWhollyFree(*segment) || keepers_.contains(segment->start())) continue;
        if (!goes(*segment->first_block(), questions)) continue;
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

absl::Status SegmentBacking::FreeIn(SegmentSource* source, Address segment) {
  return source != nullptr ? source->Free(segment) : device_.Free(segment);
}

absl::Status SegmentBacking::ReturnSegment(Block* claimed) {
  Extent& segment = *claimed->extent;
  Arena& arena = segment.arena();
  // Before the driver's call, since from then on it may give the addresses to others.
  directory_.Erase(segment.start());
  const std::shared_ptr<SegmentSource> source = arena.traits().source;
  const auto free = [&] { return FreeIn(source.get(), segment.start()); };
  absl::Status status = source != nullptr ? lock_.DuringForeignCall(free) : lock_.DuringDriverCall(free);
  if (!status.ok()) directory_.Insert(segment.start(), segment.size(), owner_);
  arena.Unclaim(claimed);
  if (!status.ok()) return status;
  held_ -= segment.size();
  memory_limit_.shared().GiveBack(segment.size());
  ledger_.Relinquished(arena.group(), segment.size());
  arena.RemoveExtent(segment);
  return absl::OkStatus();
}

absl::Status SegmentBacking::KeepInPlace(Address start, Bytes size, bool keep) {
  const Extent* const segment = arenas_.ExtentWith(start);
  const bool is_inside = segment != nullptr && size > Bytes(0) && size <= segment->end() - start;
  if (!is_inside) return absl::NotFoundError("the range is not ours");
  if (keep) {
    if (!segment->IsAllocated(start, start + size))
      return absl::NotFoundError("the range is not all in use: keep a tensor's memory while the tensor lives");
    ++keepers_[segment->start()];
    return absl::OkStatus();
  }
  const auto kept = keepers_.find(segment->start());
  if (kept == keepers_.end()) return absl::FailedPreconditionError("the memory was not kept in place");
  if (--kept->second == 0) keepers_.erase(kept);
  return absl::OkStatus();
}

void SegmentBacking::CheckInvariants() const {
  Bytes held;
  for (const Arena* arena : arenas_.segments()) {
    for (const std::unique_ptr<Extent>& segment : arena->extents()) held += segment->size();
  }
  FRUGAL_CHECK(held == held_);
}

}  // namespace frugal
