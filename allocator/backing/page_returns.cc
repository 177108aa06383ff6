#include "allocator/backing/page_returns.h"

#include <algorithm>
#include <vector>

namespace frugal {
namespace {

// Shortens a run of whole free handles to as many as are wanted: its end, so that what stays is next to the memory in
// use before it.
void TakeEnd(PageRun& run, Bytes wanted) {
  const int64_t end = run.end();
  int64_t first = end;
  while (first > run.first && Pages(end - first).bytes() < wanted) first = StartOfView({run.extent, first - 1}).page;
  run.first = first;
  run.count = end - first;
}

}  // namespace

absl::StatusOr<Bytes> PageReturns::ReturnFree(Bytes enough, const OnlyPool& only) {
  const StreamClocks::Era era = clocks_.era() - 1;
  StreamQuestions questions(clocks_, ledger_);
  const auto goes = [&](const Block& block) {
    if (!Includes(only, OwnerPool(block))) return false;
    StreamClock& clock = block.extent->arena().clock();
    return questions.HaveLeft(era, clock, clock.Expand(block.last_use));
  };
  return Return(questions.Choose([&] {
    Leaving leaving;
    if (Includes(only, PoolId())) ChooseSpares(enough, questions, leaving);
    ChoosePages(enough, goes, questions, leaving);
    return leaving;
  }));
}

absl::StatusOr<Bytes> PageReturns::ReturnIdle(Bytes enough, const UseMarks& marks) {
  if (marks.era() == 0) return Bytes(0);
  // Where the wait fails, the memory stays.
  if (IsBehindHost(marks) && clocks_.IsQuiet()) clocks_.TryWaitForAll();
  if (!clocks_.HasPassed(marks.era())) return Bytes(0);
  StreamQuestions questions(clocks_, ledger_);
  const auto goes = [&](const Block& block) { return marks.IsIdle(block, questions); };
  return Return(questions.Choose([&] {
    Leaving leaving;
    ChoosePages(enough, goes, questions, leaving);
    return leaving;
  }));
}

absl::StatusOr<Bytes> PageReturns::ReturnSpares() {
  StreamQuestions questions(clocks_, ledger_);
  return Return(questions.Choose([&] {
    Leaving leaving;
    ChooseSpares(kUnlimited, questions, leaving);
    return leaving;
  }));
}

bool PageReturns::IsBehindHost(const UseMarks& marks) {
  if (!clocks_.HasPassed(marks.era())) return clocks_.NeedsHost(marks.era());
  const std::vector<Arena*>& arenas = arenas_.mapped();
  return std::any_of(arenas.begin(), arenas.end(), [&](const Arena* arena) {
    const StreamClock& clock = arena->clock();
    if (clock.stream().lasts() || arena->free_blocks().LargestSize() < kPageSize) return false;
    const std::vector<Donation> free = WholeFreeHandles(*arena);
    return std::any_of(free.begin(), free.end(), [&](const Donation& donation) {
      return marks.IsUnused(*donation.block) && !clock.IsEnded(clock.Expand(donation.block->last_use));
    });
  });
}

void PageReturns::ChooseSpares(Bytes enough, StreamQuestions& questions, Leaving& leaving) const {
  for (const Handle* spare : handles_.spares()) {
    if (leaving.in_spares < enough && HasLeftAll(*spare, questions)) leaving.in_spares += spare->size();
  }
  leaving.size = leaving.in_spares;
}

void PageReturns::ChoosePages(Bytes enough, absl::FunctionRef<bool(const Block&)> goes, StreamQuestions& questions,
                              Leaving& leaving) const {
  for (const Arena* arena : arenas_.mapped()) {
    if (arena->free_blocks().LargestSize() < kPageSize) continue;
    for (Donation& donation : WholeFreeHandles(*arena)) {
      if (leaving.size >= enough) return;
      if (!goes(*donation.block)) continue;
      TakeEnd(donation.run, enough - leaving.size);
      // The run stays whole.
      if (!HaveLeft(donation.run, questions)) continue;
      leaving.size += donation.run.size();
      leaving.pages.push_back(donation);
    }
  }
}

bool PageReturns::HaveLeft(const PageRun& run, StreamQuestions& questions) {
  for (int64_t page = run.first; page < run.end();) {
    const Handle& handle = *run.extent->pages().view(page).handle;
    if (!HasLeftAll(handle, questions)) return false;
    page += handle.pages;
  }
  return true;
}

bool PageReturns::HasLeftAll(const Handle& handle, StreamQuestions& questions) {
  return std::all_of(handle.stale.begin(), handle.stale.end(),
                     [&questions](const PageRef& place) { return HasLeft(place, questions); });
}

absl::StatusOr<Bytes> PageReturns::Return(const Leaving& leaving) {
  std::vector<Block*> blocks;
  for (const Donation& pages : leaving.pages) {
    blocks.push_back(pages.run.extent->arena().Claim(pages.block, pages.run));
  }
  Bytes returned;
  absl::Status status = ReturnSpares(leaving.in_spares, returned);
  for (Block* block : blocks) status.Update(ReturnBlock(block, returned));
  if (!status.ok()) return status;
  return returned;
}

absl::Status PageReturns::ReturnSpares(Bytes enough, Bytes& returned) {
  absl::Status status;
  for (Handle* spare : handles_.TakeSpares()) {
    StreamQuestions questions(clocks_, ledger_);
    const bool has_left = questions.Choose([&] { return returned < enough && HasLeftAll(*spare, questions); });
    if (has_left) {
      status.Update(ReturnSpare(spare, returned));
    } else {
      handles_.Keep(spare);
    }
  }
  return status;
}

absl::Status PageReturns::ReturnSpare(Handle* spare, Bytes& returned) {
  const Bytes size = spare->size();
  const absl::StatusOr<bool> unseen = UnmapStaleViews(*spare);
  if (!unseen.value_or(false)) {
    handles_.Keep(spare);
    return unseen.status();
  }
  absl::Status released = handles_.Release(spare);
  if (released.ok()) returned += size;
  return released;
}

absl::Status PageReturns::ReturnBlock(Block* claimed, Bytes& returned) {
  Arena& arena = claimed->extent->arena();
  std::vector<Handle*> unmapped;
  absl::Status status = UnmapHandles(*claimed, unmapped);
  Bytes gone;
  for (const Handle* handle : unmapped) gone += handle->size();
  if (gone < claimed->size) arena.Unclaim(gone == Bytes(0) ? claimed : claimed->extent->Split(claimed, gone));
  if (gone > Bytes(0)) arena.Vacate(claimed);
  for (Handle* handle : unmapped) status.Update(handles_.Release(handle));
  returned += gone;
  return status;
}

absl::Status PageReturns::UnmapHandles(const Block& claimed, std::vector<Handle*>& unmapped) {
  Extent& extent = *claimed.extent;
  std::vector<Handle*> handles;
  const PageRun run = extent.WholePages(claimed.address, claimed.end());
  for (int64_t page = run.first; page < run.end(); page += handles.back()->pages) {
    handles.push_back(extent.pages().view(page).handle);
    const absl::StatusOr<bool> unseen = UnmapStaleViews(*handles.back());
    // The run stays whole.
    if (!unseen.value_or(false)) return unseen.status();
  }
  for (Handle* handle : handles) {
    absl::Status status = handles_.UnmapRun(RunOf(*handle, handle->place));
    if (!status.ok()) return status;
    unmapped.push_back(handle);
  }
  return absl::OkStatus();
}

int64_t PageReturns::TakeAway(PageRun run, absl::Status& status) {
  int64_t page = run.first;
  while (page < run.end()) {
    Handle* const handle = run.extent->pages().view(page).handle;
    FRUGAL_CHECK(handle != nullptr);
    const absl::StatusOr<bool> unseen = UnmapStaleViews(*handle);
    status = unseen.status();
    if (status.ok() && !*unseen) status = absl::UnavailableError("a stream is being captured");
    if (status.ok()) status = handles_.UnmapRun(RunOf(*handle, handle->place));
    if (!status.ok()) break;
    page += handle->pages;
    // One that the device does not take is a spare, which the next miss uses.
    ledger_.failures().Absorb(handles_.Release(handle));
  }
  return page - run.first;
}

absl::StatusOr<bool> PageReturns::UnmapStaleViews(Handle& handle) {
  while (!handle.stale.empty()) {
    absl::Status status = handles_.UnmapRun(RunOf(handle, handle.stale.back()));
    if (absl::IsUnavailable(status)) return false;
    if (!status.ok()) return status;
  }
  return true;
}

}  // namespace frugal
