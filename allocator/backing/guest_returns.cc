#include "allocator/backing/guest_returns.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

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

// The handles that [start, end) of the free block is part of, as far as they lie in the block whole.
PageRun WholeHandlesAround(const Block& block, Address start, Address end) {
  Extent& extent = *block.extent;
  const PageRun pages = extent.PagesOf(start, end);
  // A handle of several pages may have waited for these bytes alone.
  const PageRef first = StartOfView({&extent, pages.first});
  const PageRef last = StartOfView({&extent, pages.end() - 1});
  const Handle* const at_end = last.view().handle;
  FRUGAL_CHECK(at_end != nullptr);
  const PageRef past{&extent, last.page + at_end->pages};
  return OfWholeHandles(
      extent.WholePages(std::max(first.address(), block.address), std::min(past.address(), block.end())));
}

// f(Block*, start, end) for each block and the part of it that lies in the run.
template <typename F>
void ForEachBlockIn(const PageRun& run, F&& f) {
  const Address end = run.address() + run.size();
  Address next;
  for (Address start = run.address(); start < end; start = next) {
    Block* const block = run.extent->BlockAt(start);
    next = block->end();
    f(block, start, std::min(next, end));
  }
}

}  // namespace

bool GuestReturns::BecameFree(Block* block, Address start, Address end) {
  Extent& extent = *block->extent;
  for (const Block* beside : {block->previous, block->next}) {
    // It may be free again without becoming free, and with it a handle that is only half of it here.
    if (beside != nullptr && beside->state == BlockState::kClaimed) Await(extent.PagesOf(start, end));
  }
  const Stream host = extent.arena().clock().stream();
  std::vector<PageRun> homes;
  bool are_left = false;
  Send({block, WholeHandlesAround(*block, start, end)}, homes, [&](const Block&, const Handle& guest) {
    const bool goes = HomeStream(guest) == host;
    are_left = are_left || !goes;
    return goes;
  });
  FillAll(homes);
  return are_left;
}

void GuestReturns::SendPassed(Extent& extent, Address start, Address end) {
  const StreamClock& host = extent.arena().clock();
  std::vector<PageRun> homes;
  ForEachBlockIn(extent.PagesOf(start, end), [&](Block* block, Address from, Address to) {
    if (!block->IsFree() || !host.IsPassed(host.Expand(block->last_use))) return;
    Send({block, WholeHandlesAround(*block, from, to)}, homes, [](const Block&, const Handle&) { return true; });
  });
  FillAll(homes);
}

void GuestReturns::Recall(Attempt& attempt) {
  StreamQuestions& questions = attempt.questions;
  const Stream stream = attempt.arena.clock().stream();
  const auto goes = [&](const Block& free, const Handle& guest) {
    StreamClock& host = free.extent->arena().clock();
    const StreamClock::Tick last_use = host.Expand(free.last_use);
    if (questions.HasPassed(host, last_use)) return true;
    return attempt.wait_policy >= WaitPolicy::kThroughStreamWaits && HomeStream(guest) == stream &&
           questions.IsBehind(stream, host, last_use);
  };
  do {
    for (const auto& [address, run] : waiting_) {
      ForEachBlockIn(run, [&](Block* block, Address start, Address end) {
        if (block->IsFree()) LeaversOf({block, WholeHandlesAround(*block, start, end)}, goes, [](PageRun) {});
      });
    }
  } while (questions.Ask());
  std::vector<PageRun> homes;
  for (const auto& [address, run] : std::exchange(waiting_, {})) {
    ForEachBlockIn(run, [&](Block* block, Address start, Address end) {
      // It may be free again without becoming free.
      if (block->state == BlockState::kClaimed) Await(block->extent->PagesOf(start, end));
      if (block->IsFree()) Send({block, WholeHandlesAround(*block, start, end)}, homes, goes);
    });
  }
  // Only now: what comes home can join free blocks that were yet to be looked at, which are gone then.
  FillAll(homes);
}

template <typename Stays>
std::vector<GuestReturns::Leavers> GuestReturns::LeaversOf(const Donation& free, Goes goes, Stays&& stays) {
  std::vector<Leavers> leavers;
  for (int64_t end = free.run.end(); end > free.run.first;) {
    const Handle& guest = *free.run.extent->pages().view(end - 1).handle;
    end -= guest.pages;
    if (!guest.IsGuest()) continue;
    const PageRun from = RunOf(guest, guest.place);
    const PageRun home = RunOf(guest, guest.home);
    if (home.extent->pages().IsFilling(home.first, home.count) || !goes(*free.block, guest)) {
      stays(from);
    } else if (!leavers.empty() && IsNextTo(from, leavers.back().from) && IsNextTo(home, leavers.back().home)) {
      for (PageRun* run : {&leavers.back().from, &leavers.back().home}) {
        run->first -= guest.pages;
        run->count += guest.pages;
      }
    } else {
      leavers.push_back({from, home});
    }
  }
  return leavers;
}

void GuestReturns::Send(const Donation& free, std::vector<PageRun>& homes, Goes goes) {
  Extent& extent = *free.run.extent;
  // From the highest page down: what is vacated then leaves the block where it starts. Those that lie side by side here
  // and at home go as one, which is told as one and searched for once.
  for (const auto& [from, home] : LeaversOf(free, goes, [this](const PageRun& run) { Await(run); })) {
    extent.arena().Vacate(free.block, from);
    for (int64_t page = from.first; page < from.end();) {
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
  for (const Arena* arena : arenas_.mapped()) {
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
