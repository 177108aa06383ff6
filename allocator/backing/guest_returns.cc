#include "allocator/backing/guest_returns.h"

#include <algorithm>
#include <iterator>
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

// Whether `next`, which does not begin before it, begins in the run or right after it.
bool Reaches(const PageRun& run, const PageRun& next) {
  return run.extent == next.extent && run.first <= next.first && next.first <= run.end();
}

// The pages that [start, end), addresses of the extent, lies in.
PageRun PagesOf(Extent& extent, Address start, Address end) {
  const int64_t first = (start - extent.start()).count() / kPageSize.count();
  return {&extent, first, PagesCovering(end - extent.start()).count() - first};
}

// The handles that [start, end) of the free block is part of, as far as they lie in the block whole.
PageRun WholeHandlesAround(const Block& block, Address start, Address end) {
  Extent& extent = *block.extent;
  const PageRun pages = PagesOf(extent, start, end);
  // A handle of several pages may have waited for these bytes alone.
  const PageRef first = StartOfView({&extent, pages.first});
  const PageRef last = StartOfView({&extent, pages.end() - 1});
  const Handle* const at_end = last.view().handle;
  FRUGAL_CHECK(at_end != nullptr);
  const PageRef past{&extent, last.page + at_end->pages};
  return OfWholeHandles(
      extent.WholePages(std::max(first.address(), block.address), std::min(past.address(), block.end())));
}

}  // namespace

void GuestReturns::BecameFree(Block* block, Address start, Address end) {
  Extent& extent = *block->extent;
  for (const Block* beside : {block->previous, block->next}) {
    // It may be free again without becoming free, and with it a handle that is only half of it here.
    if (beside != nullptr && beside->state == BlockState::kClaimed) Await(PagesOf(extent, start, end));
  }
  const PageRun whole = WholeHandlesAround(*block, start, end);
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
  std::vector<PageRun> homes;
  for (const auto& [address, run] : std::exchange(waiting_, {})) RecallFrom(run, arena, wait_policy, homes);
  // Only now: what comes home can join free blocks that were yet to be looked at, which are gone then.
  FillAll(homes);
}

void GuestReturns::RecallFrom(const PageRun& run, const Arena& arena, WaitPolicy wait_policy,
                              std::vector<PageRun>& homes) {
  Extent& extent = *run.extent;
  const Address end = run.address() + run.size();
  Address next;
  for (Address start = run.address(); start < end; start = next) {
    Block* const block = extent.BlockAt(start);
    next = block->end();
    const Address part_end = std::min(next, end);
    // It may be free again without becoming free.
    if (block->state == BlockState::kClaimed) Await(PagesOf(extent, start, part_end));
    if (block->IsFree()) RecallFrom({block, WholeHandlesAround(*block, start, part_end)}, arena, wait_policy, homes);
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
    if (home.extent->pages().IsFilling(home.first, home.count) || !goes(guest)) {
      Await(RunOf(guest, guest.place));
      continue;
    }
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

void GuestReturns::Await(PageRun run) {
  auto beside = waiting_.upper_bound(run.address());
  if (beside != waiting_.begin() && Reaches(std::prev(beside)->second, run)) --beside;
  while (beside != waiting_.end() && (Reaches(beside->second, run) || Reaches(run, beside->second))) {
    const int64_t end = std::max(run.end(), beside->second.end());
    run.first = std::min(run.first, beside->second.first);
    run.count = end - run.first;
    beside = waiting_.erase(beside);
  }
  waiting_.emplace(run.address(), run);
}

bool GuestReturns::IsAwaited(const Handle& guest) const {
  const auto after = waiting_.upper_bound(guest.place.address());
  if (after == waiting_.begin()) return false;
  const PageRun& run = std::prev(after)->second;
  return run.extent == guest.place.extent && guest.place.page + guest.pages <= run.end();
}

void GuestReturns::CheckInvariants() const {
  for (const Arena* arena : arenas_.all()) {
    for (const Donation& free : WholeFreeHandles(*arena)) {
      for (int64_t page = free.run.first; page < free.run.end();) {
        const Handle* const handle = free.run.extent->pages().view(page).handle;
        FRUGAL_CHECK(handle != nullptr && (!handle->IsGuest() || IsAwaited(*handle)));
        page += handle->pages;
      }
    }
  }
}

}  // namespace frugal
