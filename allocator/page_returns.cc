#include "allocator/page_returns.h"

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
  const Timelines::Era era = timelines_.era() - 1;
  Bytes returned;
  absl::Status status = ReturnSpares(enough, returned);
  for (Arena* arena : arenas_.all()) status.Update(ReturnPagesOf(*arena, enough, era, returned));
  if (!status.ok()) return status;
  return returned;
}

absl::StatusOr<Bytes> PageReturns::ReturnIdle(Bytes enough, const UseMarks& marks) {
  Bytes returned;
  absl::Status status;
  if (marks.era() == 0 || !timelines_.HasPassed(marks.era())) return returned;
  for (Arena* arena : arenas_.all()) {
    if (arena->free_blocks().LargestSize() < kPageSize) continue;
    for (Donation& donation : WholeFreeHandles(*arena)) {
      if (returned >= enough) return returned;
      const absl::StatusOr<bool> is_idle = marks.IsIdle(*donation.block);
      ledger_.Absorbed(is_idle.status());
      if (!is_idle.value_or(false)) continue;
      TakeEnd(donation.run, enough - returned);
      status.Update(ReturnRun(*arena, donation, returned));
    }
  }
  if (!status.ok()) return status;
  return returned;
}

absl::Status PageReturns::ReturnSpares(Bytes enough, Bytes& returned) {
  absl::Status status;
  for (Handle* spare : handles_.TakeSpares()) {
    const absl::StatusOr<bool> unseen = returned < enough ? UnmapStaleViews(*spare) : false;
    status.Update(unseen.status());
    if (!unseen.value_or(false)) {
      handles_.Keep(spare);
      continue;
    }
    const Bytes size = spare->size();
    absl::Status released = handles_.Release(spare);
    if (released.ok()) returned += size;
    status.Update(released);
  }
  return status;
}

absl::Status PageReturns::ReturnPagesOf(Arena& arena, Bytes enough, Timelines::Era era, Bytes& returned) {
  absl::Status status;
  for (Donation& donation : WholeFreeHandles(arena)) {
    if (returned >= enough) break;
    const Timeline::Tick last_use = arena.timeline().Expand(donation.block->last_use);
    if (!timelines_.HasPassed(era) || !HasPassed(arena.timeline(), last_use)) continue;
    TakeEnd(donation.run, enough - returned);
    status.Update(ReturnRun(arena, donation, returned));
  }
  return status;
}

absl::Status PageReturns::ReturnRun(Arena& arena, const Donation& donation, Bytes& returned) {
  std::vector<Handle*> handles;
  for (int64_t page = donation.run.first; page < donation.run.end();) {
    Handle* handle = donation.run.extent->view(page).handle;
    handles.push_back(handle);
    page += handle->pages;
    const absl::StatusOr<bool> unseen = UnmapStaleViews(*handle);
    if (!unseen.ok()) return unseen.status();
    // The run stays whole.
    if (!*unseen) return absl::OkStatus();
  }
  PageRun gone{donation.run.extent, donation.run.first, 0};
  absl::Status status = handles_.UnmapRun(donation.run, &gone.count);
  if (gone.count == 0) return status;
  arena.Vacate(donation.block, gone);
  for (Handle* handle : handles) {
    if (handle->place.extent != nullptr) continue;
    ledger_.Relinquished(arena.group(), handle->size(), 1);
    status.Update(handles_.Release(handle));
  }
  returned += Pages(gone.count).bytes();
  return status;
}

absl::StatusOr<bool> PageReturns::UnmapStaleViews(Handle& handle) {
  while (!handle.stale.empty()) {
    const PageRef place = handle.stale.back();
    const View& view = place.extent->view(place.page);
    if (!timelines_.HasPassed(view.left_in)) return false;
    if (!HasPassed(place.extent->arena().timeline(), view.last_use)) return false;
    absl::Status status = handles_.UnmapRun(RunOf(handle, place));
    // Not now, because of a stream that is being captured.
    if (absl::IsUnavailable(status)) return false;
    if (!status.ok()) return status;
  }
  return true;
}

bool PageReturns::HasPassed(Timeline& timeline, Timeline::Tick tick) {
  const absl::StatusOr<bool> passed = timeline.HasPassedOnceEnded(tick);
  ledger_.Absorbed(passed.status());
  return passed.value_or(false);
}

}  // namespace frugal
