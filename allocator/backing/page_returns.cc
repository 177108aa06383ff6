#include "allocator/backing/page_returns.h"

#include <algorithm>
#include <utility>
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

absl::StatusOr<Bytes> PageReturns::ReturnFree(Bytes enough) {
  const StreamClocks::Era era = clocks_.era() - 1;
  Leaving leaving;
  ChooseSpares(enough, leaving);
  for (Arena* arena : arenas_.all()) ChoosePagesOf(*arena, enough, era, leaving);
  return Return(leaving);
}

absl::StatusOr<Bytes> PageReturns::ReturnIdle(Bytes enough, const UseMarks& marks) {
  Leaving leaving;
  if (marks.era() == 0) return leaving.size;
  if (IsBehindHost(marks) && clocks_.IsQuiet()) {
    ++ledger_.statistics().num_sync_all_streams;
    // Where it fails, the memory stays.
    clocks_.TryWaitForAll();
  }
  if (!clocks_.HasPassed(marks.era())) return leaving.size;
  for (Arena* arena : arenas_.all()) ChooseIdleOf(*arena, enough, marks, leaving);
  return Return(leaving);
}

absl::StatusOr<Bytes> PageReturns::ReturnSpares() {
  Leaving leaving;
  ChooseSpares(kUnlimited, leaving);
  return Return(leaving);
}

bool PageReturns::IsBehindHost(const UseMarks& marks) {
  if (!clocks_.HasPassed(marks.era())) return clocks_.NeedsHost(marks.era());
  return std::any_of(arenas_.all().begin(), arenas_.all().end(), [&](const Arena* arena) {
    StreamClock& clock = arena->clock();
    if (clock.stream().lasts() || arena->free_blocks().LargestSize() < kPageSize) return false;
    const std::vector<Donation> free = WholeFreeHandles(*arena);
    return std::any_of(free.begin(), free.end(), [&](const Donation& one) {
      return marks.IsUnused(*one.block) && clock.Expand(one.block->last_use) >= clock.now();
    });
  });
}

void PageReturns::ChooseSpares(Bytes enough, Leaving& leaving) {
  leaving.spares = handles_.TakeSpares();
  for (const Handle* spare : leaving.spares) {
    if (leaving.in_spares < enough && HasLeftAll(*spare)) leaving.in_spares += spare->size();
  }
  leaving.size = leaving.in_spares;
}

void PageReturns::ChoosePagesOf(Arena& arena, Bytes enough, StreamClocks::Era era, Leaving& leaving) {
  for (Donation& donation : WholeFreeHandles(arena)) {
    if (leaving.size >= enough) break;
    const StreamClock::Tick last_use = arena.clock().Expand(donation.block->last_use);
    if (!clocks_.HasPassed(era) || !HasPassed(arena.clock(), last_use)) continue;
    TakeEnd(donation.run, enough - leaving.size);
    Choose(donation, leaving);
  }
}

void PageReturns::ChooseIdleOf(Arena& arena, Bytes enough, const UseMarks& marks, Leaving& leaving) {
  if (arena.free_blocks().LargestSize() < kPageSize) return;
  for (Donation& donation : WholeFreeHandles(arena)) {
    if (leaving.size >= enough) return;
    const absl::StatusOr<bool> is_idle = marks.IsIdle(*donation.block);
    ledger_.failures().Absorb(is_idle.status());
    if (!is_idle.value_or(false)) continue;
    TakeEnd(donation.run, enough - leaving.size);
    Choose(donation, leaving);
  }
}

void PageReturns::Choose(const Donation& donation, Leaving& leaving) {
  const PageRun& run = donation.run;
  for (int64_t page = run.first; page < run.end();) {
    const Handle& handle = *run.extent->pages().view(page).handle;
    // The run stays whole.
    if (!HasLeftAll(handle)) return;
    page += handle.pages;
  }
  leaving.size += Pages(run.count).bytes();
  leaving.blocks.push_back(run.extent->arena().Claim(donation.block, run));
}

bool PageReturns::HasLeftAll(const Handle& handle) {
  return std::all_of(handle.stale.begin(), handle.stale.end(), [this](const PageRef& place) { return HasLeft(place); });
}

bool PageReturns::HasLeft(PageRef page) {
  const View& view = page.view();
  // The era first: its marks end the tick of the arena's stream, too, unless that is being captured.
  return clocks_.HasPassed(view.left_in) && HasPassed(page.extent->arena().clock(), view.last_use);
}

bool PageReturns::HasPassed(StreamClock& clock, StreamClock::Tick tick) {
  const absl::StatusOr<bool> passed = clock.HasPassedOnceEnded(tick);
  ledger_.failures().Absorb(passed.status());
  return passed.value_or(false);
}

absl::StatusOr<Bytes> PageReturns::Return(const Leaving& leaving) {
  Bytes returned;
  absl::Status status = ReturnSpares(leaving, returned);
  for (Block* block : leaving.blocks) status.Update(ReturnBlock(block, returned));
  if (!status.ok()) return status;
  return returned;
}

absl::Status PageReturns::ReturnSpares(const Leaving& leaving, Bytes& returned) {
  absl::Status status;
  for (Handle* spare : leaving.spares) {
    if (returned < leaving.in_spares && HasLeftAll(*spare)) {
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

absl::StatusOr<bool> PageReturns::UnmapStaleViews(Handle& handle) {
  while (!handle.stale.empty()) {
    absl::Status status = handles_.UnmapRun(RunOf(handle, handle.stale.back()));
    if (absl::IsUnavailable(status)) return false;
    if (!status.ok()) return status;
  }
  return true;
}

}  // namespace frugal
