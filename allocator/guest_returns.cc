#include "allocator/guest_returns.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "allocator/timeline.h"

namespace frugal {
namespace {

Stream HomeStream(const Handle& guest) { return guest.home.extent->arena().stream(); }

}  // namespace

void GuestReturns::BecameFree(Block* block, Address start, Address end) {
  Extent& extent = *block->extent;
  const Address first = extent.PageAddress((start - extent.start()).count() / kPageSize.count());
  const Address past = extent.PageAddress(PagesCovering(end - extent.start()).count());
  const PageRun whole = extent.WholePages(std::max(first, block->address), std::min(past, block->end()));
  Timeline& host = extent.arena().timeline();
  const Timeline::Tick last_use = host.Expand(block->last_use);
  std::optional<bool> passed;
  std::vector<PageRun> homes;
  Send({block, whole}, homes, [&](const Handle& guest) {
    if (HomeStream(guest) == host.stream()) return true;
    if (!passed.has_value()) {
      const absl::StatusOr<bool> answer = host.HasPassedOnceEnded(last_use);
      // An error is no reason to fail: the guest can go later.
      ledger_.Absorbed(answer.status());
      passed = answer.value_or(false);
    }
    return *passed;
  });
  FillAll(homes);
}

void GuestReturns::Recall(const Arena& arena, Reach reach) {
  for (Arena* host : arenas_.all()) {
    const bool has_guests = std::any_of(host->extents().begin(), host->extents().end(),
                                        [](const auto& extent) { return extent->guests() > 0; });
    if (!has_guests) continue;
    // Filled only after the walk: what comes home can join free blocks that the walk has yet to come to, which are gone
    // then.
    std::vector<PageRun> homes;
    for (const Donation& free : WholeFreePages(*host)) {
      if (free.run.extent->guests() > 0) RecallFrom(free, arena, reach, homes);
    }
    FillAll(homes);
  }
}

// A host whose stream fails keeps its guests: they can go later.
void GuestReturns::RecallFrom(const Donation& free, const Arena& arena, Reach reach, std::vector<PageRun>& homes) {
  Timeline& host = free.run.extent->arena().timeline();
  const Timeline::Tick last_use = host.Expand(free.block->last_use);
  std::optional<bool> passed;
  std::optional<bool> waited_for;
  Send(free, homes, [&](const Handle& guest) {
    if (!passed.has_value()) {
      const absl::StatusOr<bool> answer = host.HasPassedOnceEnded(last_use);
      ledger_.Absorbed(answer.status());
      passed = answer.value_or(false);
    }
    if (*passed || reach < Reach::kThroughStreamWaits || HomeStream(guest) != arena.stream()) return *passed;
    if (!waited_for.has_value()) {
      // A stream that is being captured cannot be waited for, nor can it wait.
      const absl::Status waits = last_use < host.now() ? host.MakeWait(arena.stream(), last_use)
                                                       : absl::UnavailableError("the host cannot be marked");
      if (!absl::IsUnavailable(waits)) ledger_.Absorbed(waits);
      waited_for = waits.ok();
      if (waits.ok()) ++ledger_.statistics().num_stream_waits;
    }
    return *waited_for;
  });
}

void GuestReturns::Send(const Donation& free, std::vector<PageRun>& homes,
                        absl::FunctionRef<bool(const Handle&)> goes) {
  Extent& extent = *free.run.extent;
  // From the highest page down: what is vacated then leaves the block where it starts.
  std::vector<std::pair<PageRun, PageRun>> leaving;
  int64_t page = free.run.end();
  while (page > free.run.first) {
    const Handle* guest = extent.view(--page).handle;
    if (!guest->IsGuest() || !goes(*guest)) continue;
    PageRun home{guest->home.extent, guest->home.page, 1};
    for (; page > free.run.first; --page) {
      // Of one that is at home this never holds: the guest after it would be at home, too.
      if (extent.view(page - 1).handle->home != PageRef{home.extent, home.first - 1}) break;
      --home.first;
      ++home.count;
    }
    leaving.push_back({PageRun{&extent, page, home.count}, home});
  }
  for (const auto& [run, home] : leaving) {
    extent.arena().Vacate(free.block, run);
    ledger_.MovedBetweenGroups(extent.arena().group(), home.extent->arena().group(), Pages(run.count).bytes());
    for (int64_t vacated = run.first; vacated < run.end(); ++vacated) {
      Handle* guest = extent.view(vacated).handle;
      handles_.Move(guest, guest->home);
    }
    homes.push_back(home);
  }
}

void GuestReturns::FillAll(const std::vector<PageRun>& homes) {
  for (const PageRun& home : homes) home.extent->arena().Fill(home);
}

}  // namespace frugal
