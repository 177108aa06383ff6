#include "allocator/backing/guest_returns.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "allocator/blocks/stream_clock.h"
#include "allocator/port/check.h"

namespace frugal {
namespace {

Stream HomeStream(const Handle& guest) { return guest.home.extent->arena().clock().stream(); }

bool IsNextTo(const PageRun& run, const PageRun& next) { return run.extent == next.extent && run.end() == next.first; }

}  // namespace

void GuestReturns::BecameFree(Block* block, Address start, Address end) {
  Extent& extent = *block->extent;
  // A handle of several pages may have waited for these bytes alone.
  const PageRef first = StartOfView({&extent, (start - extent.start()).count() / kPageSize.count()});
  const int64_t last_page = (end - extent.start() - Bytes(1)).count() / kPageSize.count();
  const PageRef last = StartOfView({&extent, last_page});
  const Handle* const waiting = last.view().handle;
  FRUGAL_CHECK(waiting != nullptr);
  const int64_t past = last.page + waiting->pages;
  const PageRun whole = OfWholeHandles(extent.WholePages(std::max(first.address(), block->address),
                                                         std::min(PageRef{&extent, past}.address(), block->end())));
  StreamClock& host = extent.arena().clock();
  const StreamClock::Tick last_use = host.Expand(block->last_use);
  std::optional<bool> passed;
  std::vector<PageRun> homes;
  Send({block, whole}, homes, [&](const Handle& guest) {
    if (HomeStream(guest) == host.stream()) return true;
    if (!passed.has_value()) {
      const absl::StatusOr<bool> answer = host.HasPassedOnceEnded(last_use);
      // An error is no reason to fail: the guest can go later.
      ledger_.failures().Absorb(answer.status());
      passed = answer.value_or(false);
    }
    return *passed;
  });
  FillAll(homes);
}

void GuestReturns::Recall(const Arena& arena, WaitPolicy wait_policy) {
  for (Arena* host : arenas_.all()) {
    const bool has_guests = std::any_of(host->extents().begin(), host->extents().end(),
                                        [](const auto& extent) { return extent->pages().guests() > 0; });
    if (!has_guests) continue;
    // Filled only after the walk: what comes home can join free blocks that the walk has yet to come to, which are gone
    // then.
    std::vector<PageRun> homes;
    for (const Donation& free : WholeFreeHandles(*host)) {
      if (free.run.extent->pages().guests() > 0) RecallFrom(free, arena, wait_policy, homes);
    }
    FillAll(homes);
  }
}

// A host whose stream fails keeps its guests: they can go later.
void GuestReturns::RecallFrom(const Donation& free, const Arena& arena, WaitPolicy wait_policy,
                              std::vector<PageRun>& homes) {
  StreamClock& host = free.run.extent->arena().clock();
  const StreamClock::Tick last_use = host.Expand(free.block->last_use);
  std::optional<bool> passed;
  std::optional<bool> waited_for;
  Send(free, homes, [&](const Handle& guest) {
    if (!passed.has_value()) {
      const absl::StatusOr<bool> answer = host.HasPassedOnceEnded(last_use);
      ledger_.failures().Absorb(answer.status());
      passed = answer.value_or(false);
    }
    if (*passed || wait_policy < WaitPolicy::kThroughStreamWaits || HomeStream(guest) != arena.clock().stream())
      return *passed;
    if (!waited_for.has_value()) {
      // A stream that is being captured cannot be waited for, nor can it wait.
      const absl::Status waits = last_use < host.now() ? host.MakeWait(arena.clock().stream(), last_use)
                                                       : absl::UnavailableError("the host cannot be marked");
      if (!absl::IsUnavailable(waits)) ledger_.failures().Absorb(waits);
      waited_for = waits.ok();
      if (waits.ok()) ++ledger_.statistics().num_stream_waits;
    }
    return *waited_for;
  });
}

void GuestReturns::Send(const Donation& free, std::vector<PageRun>& homes,
                        absl::FunctionRef<bool(const Handle&)> goes) {
  Extent& extent = *free.run.extent;
  // From the highest page down: what is vacated then leaves the block where it starts. Those that lie side by side here
  // and at home go as one, which is told as one and searched for once.
  std::vector<std::pair<PageRun, PageRun>> leaving;
  for (int64_t end = free.run.end(); end > free.run.first;) {
    const Handle& guest = *extent.pages().view(end - 1).handle;
    end -= guest.pages;
    if (!guest.IsGuest()) continue;
    const PageRun home = RunOf(guest, guest.home);
    if (home.extent->pages().IsFilling(home.first, home.count) || !goes(guest)) continue;
    if (!leaving.empty() && IsNextTo(RunOf(guest, guest.place), leaving.back().first) &&
        IsNextTo(home, leaving.back().second)) {
      for (PageRun* run : {&leaving.back().first, &leaving.back().second}) {
        run->first -= guest.pages;
        run->count += guest.pages;
      }
    } else {
      leaving.push_back({RunOf(guest, guest.place), home});
    }
  }
  for (const auto& [run, home] : leaving) {
    extent.arena().Vacate(free.block, run);
    ledger_.MovedBetweenGroups(extent.arena().group(), home.extent->arena().group(), run.size());
    for (int64_t page = run.first; page < run.end();) {
      Handle* const guest = extent.pages().view(page).handle;
      handles_.Move(guest, guest->home);
      page += guest->pages;
    }
    homes.push_back(home);
  }
}

void GuestReturns::FillAll(const std::vector<PageRun>& homes) {
  for (const PageRun& home : homes) home.extent->arena().Fill(home);
}

}  // namespace frugal
