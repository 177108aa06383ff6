#include "allocator/sleep.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "allocator/port/check.h"
#include "allocator/stitching/handle.h"

namespace frugal {
namespace {

bool IsLive(const Extent& extent, int64_t page) { return extent.pages().view(page).state == View::State::kLive; }

PageRun PagesOf(const Block& block) { return block.extent->PagesOf(block.address, block.end()); }

// REQUIRES: the block has bytes in the run.
Sleep::Range PartIn(const Block& block, PageRun run) {
  const Address start = std::max(block.address, run.address());
  return {start, std::min(block.end(), run.address() + run.size()) - start};
}

// Calls `call(first, end, live)` for each longest part of the run with memory, and each without.
template <typename Call>
void ForEachPart(PageRun run, Call&& call) {
  for (int64_t page = run.first; page < run.end();) {
    const bool live = IsLive(*run.extent, page);
    const int64_t first = page;
    while (page < run.end() && IsLive(*run.extent, page) == live) ++page;
    call(first, page, live);
  }
}

// Calls `call(handle)` for each that is live in the run.
template <typename Call>
void ForEachHandle(PageRun run, Call&& call) {
  for (int64_t page = run.first; page < run.end();) {
    if (!IsLive(*run.extent, page)) {
      ++page;
      continue;
    }
    const Handle* const handle = run.extent->pages().view(page).handle;
    FRUGAL_CHECK(handle != nullptr);
    call(*handle);
    page = RunOf(*handle, handle->place).end();
  }
}

void AddRun(std::vector<PageRun>& runs, PageRun run) {
  if (!runs.empty() && runs.back().extent == run.extent && runs.back().end() >= run.first) {
    runs.back().count = std::max(runs.back().end(), run.end()) - runs.back().first;
  } else {
    runs.push_back(run);
  }
}

// Those that are asleep go with the chosen ones.
bool Goes(const Block& block, const absl::flat_hash_set<const Block*>& chosen) {
  return block.Sleeps() || chosen.contains(&block);
}

}  // namespace

template <typename Result>
Result Sleep::Locked(absl::FunctionRef<Result()> call) {
  ObserverQueue::Call watched(state_.observers);
  Result result = [&]() -> Result {
    const absl::MutexLock growing(&state_.growth_mutex);
    const absl::MutexLock locked(&state_.mutex);
    if (!state_.health.ok()) return state_.health;
    try {
      Result made = call();
      state_.CheckChange();
      return made;
    } catch (const BrokenInvariant& broken) {
      return state_.Break(broken);
    }
  }();
  watched.Finish();
  return result;
}

template <typename Call>
void Sleep::ForEachMapped(Call&& call) const {
  for (const Arena* arena : state_.arenas.mapped()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) call(*extent);
  }
}

bool Sleep::IsMeant(const Block& block, Choice chosen) const {
  const std::optional<uint8_t> of_pool = state_.pools.TagOf(block.extent->arena());
  return of_pool.has_value() ? chosen(Address(), *of_pool) : chosen(block.address, block.tag);
}

Sleep::Blocks Sleep::ChosenOf(const Extent& extent, Choice chosen, bool (Block::*may_be)() const) const {
  Blocks blocks;
  for (const Block* block = extent.first_block(); block != nullptr; block = block->next) {
    if ((block->*may_be)() && IsMeant(*block, chosen)) blocks.insert(block);
  }
  return blocks;
}

absl::Status Sleep::SetTag(Address address, uint8_t tag) {
  const absl::MutexLock locked(&state_.mutex);
  if (!state_.health.ok()) return state_.health;
  Block* const block = state_.allocated.Find(address);
  if (block == nullptr) return absl::NotFoundError(absl::StrFormat("no block starts at %#x", address.value()));
  block->tag = tag;
  block->has_more = block->has_more || tag != 0;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sleep::Range>> Sleep::FallAsleep(Choice chosen, std::vector<Range>* again) {
  return Locked<absl::StatusOr<std::vector<Range>>>(
      [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<std::vector<Range>> {
        absl::Status waited = state_.clocks.WaitForAll();
        if (!waited.ok()) return waited;
        state_.ledger.failures().Absorb(state_.returns.WaitForAllWork(KeptPools::Which::kUnread));
        Settle();
        std::vector<Range> ranges;
        ForEachMapped([&](Extent& extent) ABSL_NO_THREAD_SAFETY_ANALYSIS {
          const bool is_pools = extent.arena().FixesWhatItHandsOut();
          const Blocks goes = ChosenOf(extent, chosen, is_pools ? &Block::MayFallAsleepInPool : &Block::IsAwake);
          const std::vector<PageRun> runs = HandlesUnder(
              extent, [&](const Block& block) { return Goes(block, goes); },
              [](const Block& block) { return block.IsFree(); });
          for (const PageRun& run : runs) {
            if (again != nullptr) AddSleeping(run, *again);
            LayDown(run);
            AddSleeping(run, ranges);
          }
          state_.sleep_runs.insert(state_.sleep_runs.end(), runs.begin(), runs.end());
        });
        state_.sleep_copies = true;
        return ranges;
      });
}

void Sleep::LayDown(PageRun run) {
  Arena& arena = run.extent->arena();
  const Address end = run.address() + run.size();
  for (Block* block = run.extent->BlockAt(run.address()); block != nullptr && block->address < end;
       block = block->next) {
    if (block->IsFree()) {
      block = arena.Claim(block, std::max(block->address, run.address()), std::min(block->end(), end));
      if (arena.FixesWhatItHandsOut()) block->Apply(BlockStep::kFallAsleepInPool);
    } else if (block->IsAwake()) {
      block->Apply(BlockStep::kFallAsleep);
      block->has_more = true;
    }
  }
}

std::optional<Sleep::Why> Sleep::WhyStays(const Handle& handle, Test goes, Test may_lie_beside) {
  // What no graph may read of a pool is free.
  const bool is_pools = handle.place.extent->arena().FixesWhatItHandsOut();
  if (handle.keepers > 0 || handle.is_fixed != is_pools) return Why::kKeptInPlace;
  const PageRun run = RunOf(handle, handle.place);
  const Address end = run.address() + run.size();
  for (const Block* block = run.extent->BlockAt(run.address()); block != nullptr && block->address < end;
       block = block->next) {
    if (!goes(*block) && !may_lie_beside(*block)) return Why::kBesideAwake;
  }
  return std::nullopt;
}

std::vector<PageRun> Sleep::HandlesUnder(Extent& extent, Test goes, Test may_lie_beside) {
  std::vector<PageRun> runs;
  const Handle* latest = nullptr;
  for (Block* block = extent.first_block(); block != nullptr; block = block->next) {
    if (!goes(*block)) continue;
    ForEachHandle(PagesOf(*block), [&](const Handle& handle) {
      if (std::exchange(latest, &handle) == &handle) return;
      if (!WhyStays(handle, goes, may_lie_beside).has_value()) AddRun(runs, RunOf(handle, handle.place));
    });
  }
  return runs;
}

void Sleep::AddSleeping(PageRun run, std::vector<Range>& ranges) {
  const Address end = run.address() + run.size();
  for (const Block* block = run.extent->BlockAt(run.address()); block != nullptr && block->address < end;
       block = block->next) {
    if (block->Sleeps()) ranges.push_back(PartIn(*block, run));
  }
}

absl::StatusOr<Bytes> Sleep::LetGo() {
  return Locked<absl::StatusOr<Bytes>>([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<Bytes> {
    std::vector<PageRun> emptied;
    absl::Status status = state_.backing->Empty(std::exchange(state_.sleep_runs, {}), emptied);
    Settle();
    if (!status.ok()) return status;
    Bytes gone;
    for (const PageRun& run : emptied) gone += run.size();
    return gone;
  });
}

absl::StatusOr<std::vector<Sleep::Range>> Sleep::TakeBack(Choice chosen) {
  return Locked<absl::StatusOr<std::vector<Range>>>(
      [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<std::vector<Range>> {
        Settle();
        std::vector<PageRun> runs = Lacking(chosen);
        absl::Status status = state_.backing->Refill(runs);
        if (absl::IsResourceExhausted(status)) {
          state_.ledger.failures().Absorb(state_.returns.WaitForAllWork(KeptPools::Which::kAll));
          Settle();
          state_.ledger.failures().Absorb(state_.backing->ReturnFree(kUnlimited, std::nullopt).status());
          // Less, if a pool was let go of.
          runs = Lacking(chosen);
          status = state_.backing->Refill(runs);
        }
        if (!status.ok()) return status;
        std::vector<Range> ranges;
        for (const PageRun& run : runs) AddSleeping(run, ranges);
        state_.sleep_runs = std::move(runs);
        state_.sleep_copies = true;
        return ranges;
      });
}

std::vector<PageRun> Sleep::Lacking(Choice chosen) const {
  std::vector<PageRun> runs;
  ForEachMapped([&](Extent& extent) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (Block* block = extent.first_block(); block != nullptr; block = block->next) {
      if (!block->Sleeps() || !IsMeant(*block, chosen)) continue;
      ForEachPart(PagesOf(*block), [&](int64_t first, int64_t end, bool live) {
        if (!live) AddRun(runs, {&extent, first, end - first});
      });
    }
  });
  return runs;
}

absl::Status Sleep::WakeUp(Choice chosen) {
  return Locked<absl::Status>([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    ForEachMapped([&](Extent& extent) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      for (Block* block = extent.first_block(); block != nullptr; block = block->next) {
        if (!block->Sleeps() || !IsMeant(*block, chosen)) continue;
        bool lacks = false;
        ForEachPart(PagesOf(*block), [&](int64_t, int64_t, bool live) { lacks |= !live; });
        if (lacks) continue;
        if (block->state == BlockState::kPoolAsleep) {
          // It is free once it has settled.
          block->Apply(BlockStep::kWakeUpInPool);
          continue;
        }
        block->Apply(BlockStep::kWakeUp);
        block->has_more = block->tag != 0 || state_.other_streams.contains(block);
        state_.pools.KeepAwake(*block);
      }
    });
    Settle();
    return absl::OkStatus();
  });
}

void Sleep::EnterGivenBack() {
  static_cast<void>(Locked<absl::Status>([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    SettleDropped();
    return absl::OkStatus();
  }));
}

std::vector<Sleep::StayedPart> Sleep::Stayed(Choice chosen) const {
  const absl::MutexLock locked(&state_.mutex);
  std::vector<StayedPart> parts;
  if (!state_.health.ok()) return parts;
  for (const Arena* arena : state_.arenas.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) AddStayed(*extent, chosen, parts);
  }
  return parts;
}

void Sleep::AddStayed(Extent& extent, Choice chosen, std::vector<StayedPart>& parts) const {
  const Blocks meant = ChosenOf(extent, chosen, &Block::IsHandedOut);
  const Handle* latest = nullptr;
  std::optional<Why> why;
  for (const Block* block = extent.first_block(); block != nullptr; block = block->next) {
    if (!meant.contains(block)) continue;
    if (extent.kind() == MemoryKind::kSegment) {
      parts.push_back({ViewOf(*block, state_), block->size, Why::kInSegment});
      continue;
    }
    const size_t others = parts.size();
    ForEachHandle(PagesOf(*block), [&](const Handle& handle) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      // Many small blocks may share one.
      if (std::exchange(latest, &handle) != &handle) {
        why = WhyStays(
            handle, [&](const Block& beside) { return Goes(beside, meant); },
            [](const Block& beside) { return !beside.IsInUse(); });
      }
      if (!why.has_value()) return;
      const Bytes stays = PartIn(*block, RunOf(handle, handle.place)).size;
      const auto same = std::find_if(parts.begin() + static_cast<std::ptrdiff_t>(others), parts.end(),
                                     [&](const StayedPart& part) { return part.why == *why; });
      if (same == parts.end()) {
        parts.push_back({ViewOf(*block, state_), stays, *why});
      } else {
        same->size += stays;
      }
    });
  }
}

std::vector<PoolId> Sleep::UnreadablePools() const {
  const absl::MutexLock locked(&state_.mutex);
  absl::flat_hash_set<PoolId> asleep;
  ForEachMapped([&](Extent& extent) {
    if (!extent.arena().FixesWhatItHandsOut()) return;
    for (const Block* block = extent.first_block(); block != nullptr; block = block->next) {
      if (block->Sleeps()) asleep.insert(extent.arena().pool());
    }
  });
  return state_.pools.WithReaders(asleep);
}

std::vector<Sleep::AsleepBlock> Sleep::Asleep() const {
  const absl::MutexLock locked(&state_.mutex);
  std::vector<AsleepBlock> asleep;
  if (!state_.health.ok()) return asleep;
  ForEachMapped([&](Extent& extent) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const PoolId pool = extent.arena().FixesWhatItHandsOut() ? extent.arena().pool() : PoolId();
    for (const Block* block = extent.first_block(); block != nullptr; block = block->next) {
      if (!block->Sleeps()) continue;
      asleep.push_back({ViewOf(*block, state_), {}, pool});
      ForEachPart(PagesOf(*block), [&](int64_t first, int64_t end, bool live) {
        if (!live) asleep.back().lacking.push_back(PartIn(*block, {&extent, first, end - first}));
      });
    }
  });
  return asleep;
}

void Sleep::Settle() {
  state_.sleep_copies = state_.dropped_asleep = false;
  state_.pools.ForgetSleepers();
  state_.sleep_runs.clear();
  ForEachMapped([&](Extent& extent) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const bool is_pools = extent.arena().FixesWhatItHandsOut();
    for (Block* block = extent.first_block(); block != nullptr; block = block->next) {
      // Nobody holds the pool any more.
      if (block->state == BlockState::kPoolAsleep && !is_pools) block->Apply(BlockStep::kWakeUpInPool);
    }
    std::vector<Block*> claimed;
    for (Block* block = extent.first_block(); block != nullptr; block = block->next) {
      if (block->state != BlockState::kClaimed) continue;
      const StreamClock& clock = extent.arena().clock();
      for (; block->next != nullptr && block->next->state == BlockState::kClaimed; extent.AbsorbNext(block)) {
        const uint32_t last_use = block->next->last_use;
        if (clock.Expand(last_use) > clock.Expand(block->last_use)) block->last_use = last_use;
      }
      claimed.push_back(block);
    }
    for (Block* block : claimed) SettleBlock(extent.arena(), block);
  });
}

void Sleep::SettleBlock(Arena& arena, Block* claimed) {
  Extent& extent = *claimed->extent;
  ForEachPart(PagesOf(*claimed), [&](int64_t first, int64_t end, bool live) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Block* const here = claimed;
    FRUGAL_CHECK(here != nullptr);
    const PageRun part{&extent, first, end - first};
    const Address from = std::max(here->address, part.address());
    const Address to = std::min(here->end(), part.address() + part.size());
    const PageRun whole = extent.WholePages(from, to);
    if (live) {
      claimed = to < here->end() ? extent.Split(here, to - here->address) : nullptr;
      // A guest among it was not known to be free.
      state_.backing->BecameFree(arena.Unclaim(here), from, to);
      return;
    }
    // The ends share their pages with what is asleep.
    if (whole.count == 0) {
      claimed = to < here->end() ? extent.Split(here, to - here->address) : nullptr;
      return;
    }
    Block* const hole = whole.address() > here->address ? extent.Split(here, whole.address() - here->address) : here;
    claimed = whole.size() < hole->size ? extent.Split(hole, whole.size()) : nullptr;
    arena.BecomeHole(hole);
  });
}

}  // namespace frugal
