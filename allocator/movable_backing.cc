#include "allocator/movable_backing.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "allocator/check.h"
#include "allocator/timeline.h"

namespace frugal {
namespace {

// Addresses cost nothing but table entries, and the more there are the longer a frontier can advance before holes
// have to be refilled, which needs an unmap each. Small blocks never need much.
Bytes ExtentSize(SizeGroup group, Bytes device_total, Bytes request) {
  const Bytes usual = group == SizeGroup::kSmall ? Bytes(device_total.count() / 2) : device_total * 2;
  return RoundUp(std::max(usual, request), kPageSize);
}

// A stream that lends this often without lacking memory itself does not need it back: with it going home each time,
// four streams with a block each took 325 ns a call, without 45. Much fewer would do for these, but streams whose needs
// differ from one moment to the next waste more: at 128, .979 of six streams' memory was in use, where it is .984.
constexpr int64_t kMostLoans = 512;

// A program that remaps beyond its allowance may hold an eighth more than it ever had in use. A server whose caches
// grow by being copied makes a sixth of the driver calls then, with 89 % of its memory in use instead of 97 %.
constexpr int64_t kSlackPart = 8;

// Shortens a run of free pages to as many as are wanted: its end, so that what stays is next to the memory in use
// before it.
void TakeEnd(PageRun& run, Bytes wanted) {
  const int64_t end = run.end();
  run.count = std::min(run.count, PagesCovering(wanted).count());
  run.first = end - run.count;
}

bool StaysInStream(const StitchPlan& plan, Stream stream) {
  return std::all_of(plan.donations.begin(), plan.donations.end(),
                     [stream](const Donation& donation) { return donation.run.extent->arena().stream() == stream; });
}

}  // namespace

MovableBacking::MovableBacking(Device& device, ArenaSet& arenas, Ledger& ledger, Budget& budget,
                               AddressDirectory& directory, DeviceAllocator* owner)
    : device_(device),
      arenas_(arenas),
      ledger_(ledger),
      budget_(budget),
      directory_(directory),
      owner_(owner),
      handles_(device),
      guests_(arenas, handles_, ledger) {}

MovableBacking::~MovableBacking() {
  absl::Status status = handles_.ReleaseAll();
  for (Arena* arena : arenas_.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      directory_.Erase(extent->start());
      status.Update(device_.Unreserve(extent->start(), extent->size()));
    }
  }
  FRUGAL_CHECK(status.ok());
}

absl::Status MovableBacking::Extend(Arena& arena, Bytes size, Reach reach) {
  if (absl::Status fits = CheckDeviceHolds(size); !fits.ok()) return fits;
  arena.CountMiss();
  absl::Status status = ExtendWithin(arena, size, reach);
  // The arena's stream is being captured, so it can wait for nobody.
  if (absl::IsUnavailable(status)) return ExtendWithin(arena, size, Reach::kPassed);
  return status;
}

absl::Status MovableBacking::ExtendWithin(Arena& arena, Bytes size, Reach reach) {
  absl::Status recalled = guests_.Recall(arena, reach);
  if (!recalled.ok()) return recalled;
  if (arena.free_blocks().BestFit(size) != nullptr) return absl::OkStatus();
  absl::StatusOr<Offers> offers = FindOffers(arena, reach);
  if (!offers.ok()) return offers.status();
  absl::StatusOr<StitchPlan> plan = Plan(arena, size, *offers);
  if (!plan.ok()) return plan.status();
  if (StaysInStream(*plan, arena.stream())) {
    allowance_.Earn(ledger_.statistics().allocation[SizeGroup::kAll].allocated);
    const int64_t remapping = RemapMicroseconds(*plan);
    if (remapping > 0 && allowance_.IsSpent()) {
      absl::StatusOr<StitchPlan> growing = Plan(arena, size, Offers({}));
      if (growing.ok() && IsWithinSlack(*growing) && Allow(*growing).ok()) return Commit(arena, *growing, reach);
    }
    allowance_.Spend(remapping);
  }
  absl::Status allowed = Allow(*plan);
  if (absl::IsResourceExhausted(allowed) && plan->to_create + offers->pages() > PagesCovering(size)) {
    // The place joins free memory, whose pages it cannot take as well. One apart can take all.
    plan = PlanApart(arena, size, *offers);
    allowed = plan.ok() ? Allow(*plan) : plan.status();
  }
  if (!allowed.ok()) return allowed;
  return Commit(arena, *plan, reach);
}

bool MovableBacking::IsWithinSlack(const StitchPlan& plan) const {
  const Counter& active = ledger_.statistics().active_bytes()[SizeGroup::kAll];
  const int64_t most = std::max(active.peak, active.current + plan.size.count());
  return (handles_.held() + plan.to_create).bytes().count() <= most + most / kSlackPart;
}

absl::Status MovableBacking::CheckDeviceHolds(Bytes size) {
  if (size <= handles_.held().bytes()) return absl::OkStatus();
  absl::StatusOr<MemoryInfo> info = device_.GetMemoryInfo();
  if (!info.ok()) return info.status();
  return size <= info->total ? absl::OkStatus() : absl::ResourceExhaustedError("larger than the device");
}

absl::Status MovableBacking::Allow(const StitchPlan& plan) {
  if (plan.to_create <= handles_.spares()) return absl::OkStatus();
  return budget_.Allow(handles_.held().bytes(), (plan.to_create - handles_.spares()).bytes());
}

absl::StatusOr<Extent*> MovableBacking::AddExtent(Arena& arena, Bytes size) {
  absl::StatusOr<MemoryInfo> info = device_.GetMemoryInfo();
  if (!info.ok()) return info.status();
  const Bytes reserved = ExtentSize(arena.group(), info->total, size);
  absl::StatusOr<Address> start = device_.Reserve(reserved);
  if (!start.ok()) return start.status();
  Extent& extent = arena.AddExtent(Extent::Kind::kMovable, *start, reserved);
  directory_.Insert(*start, reserved, owner_);
  return &extent;
}

absl::Status MovableBacking::AddSideExtent(Arena& arena) {
  absl::StatusOr<Extent*> side = AddExtent(arena, kPageSize);
  if (!side.ok()) return side.status();
  arena.side().Set(**side);
  return absl::OkStatus();
}

absl::StatusOr<Offers> MovableBacking::FindOffers(const Arena& arena, Reach reach) {
  std::vector<Donation> donations;
  for (const Arena* donor : arenas_.all()) {
    if (donor->free_blocks().LargestSize() < kPageSize) continue;
    for (const Donation& donation : WholeFreePages(*donor)) {
      absl::StatusOr<bool> may_take = MayTake(arena, donation, reach);
      if (!may_take.ok()) return may_take.status();
      if (*may_take) donations.push_back(donation);
    }
  }
  return Offers(std::move(donations));
}

absl::StatusOr<bool> MovableBacking::MayTake(const Arena& arena, const Donation& donation, Reach reach) {
  Timeline& owner = donation.run.extent->arena().timeline();
  if (owner.stream() == arena.stream()) return true;
  const Timeline::Tick last_use = owner.Expand(donation.block->last_use);
  // Work of a stream that is being captured cannot be waited for.
  return reach >= Reach::kThroughStreamWaits ? owner.End(last_use) : owner.HasPassedOnceEnded(last_use);
}

absl::StatusOr<StitchPlan> MovableBacking::Plan(Arena& arena, Bytes size, const Offers& offers) {
  absl::Status asked;
  const auto may_unmap = [&asked](PageRef page) {
    Timeline& user = page.extent->arena().timeline();
    absl::StatusOr<bool> passed = user.HasPassedOnceEnded(page.extent->view(page.page).last_use);
    asked.Update(passed.status());
    return passed.value_or(false);
  };
  std::optional<StitchPlan> plan = PlanStitch(arena, size, offers, may_unmap);
  // As long as nothing is taken from elsewhere, the first range of an arena needs no other beside it.
  const bool wants_side = plan.has_value() && !plan->donations.empty() && !arena.side().exists();
  if (!plan.has_value() || wants_side) {
    absl::Status added = wants_side ? AddSideExtent(arena) : AddExtent(arena, size).status();
    if (!added.ok()) return added;
    plan = PlanStitch(arena, size, offers, may_unmap);
    FRUGAL_CHECK(plan.has_value());
  }
  if (!asked.ok()) return asked;
  return *std::move(plan);
}

absl::StatusOr<StitchPlan> MovableBacking::PlanApart(Arena& arena, Bytes size, const Offers& offers) {
  std::optional<StitchPlan> plan = PlanStitchApart(arena, size, offers);
  if (!plan.has_value()) {
    absl::Status added = AddExtent(arena, size).status();
    if (!added.ok()) return added;
    plan = PlanStitchApart(arena, size, offers);
    FRUGAL_CHECK(plan.has_value());
  }
  return *std::move(plan);
}

absl::Status MovableBacking::Commit(Arena& arena, StitchPlan& plan, Reach reach) {
  absl::Status status = OrderAfterDonors(arena, plan, reach);
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<Handle*>> created = Create(plan.to_create);
  if (!created.ok()) return created.status();
  auto next = created->begin();
  for (Handle*& handle : plan.handles) {
    if (handle == nullptr) handle = *next++;
  }
  status = MapTarget(plan);
  if (!status.ok()) {
    for (Handle* handle : *created) status.Update(handles_.Release(handle));
    return status;
  }
  arena.side().Use(plan.target);
  arena.past_stitches().Add(plan.size, plan.target);
  EnterInBooks(arena, plan);
  return absl::OkStatus();
}

absl::Status MovableBacking::OrderAfterDonors(const Arena& arena, const StitchPlan& plan, Reach reach) {
  absl::flat_hash_map<Timeline*, Timeline::Tick> last_uses;
  for (const Donation& donation : plan.donations) {
    Timeline& donor = donation.run.extent->arena().timeline();
    if (donor.stream() == arena.stream()) continue;
    Timeline::Tick& last_use = last_uses[&donor];
    last_use = std::max(last_use, donor.Expand(donation.block->last_use));
  }
  for (const auto& [donor, last_use] : last_uses) {
    absl::StatusOr<bool> passed = donor->HasPassed(last_use);
    if (!passed.ok()) return passed.status();
    if (*passed) continue;
    absl::Status status = donor->MakeWait(arena.stream(), last_use);
    if (status.ok()) ++ledger_.statistics().num_stream_waits;
    if (absl::IsUnavailable(status) && reach == Reach::kWithHostWaits) status = donor->Synchronize(last_use);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Handle*>> MovableBacking::Create(Pages count) {
  std::vector<Handle*> created;
  for (int64_t i = 0; i < count.count(); ++i) {
    absl::StatusOr<Handle*> handle = handles_.Create();
    if (!handle.ok()) {
      absl::Status status = handle.status();
      for (Handle* one : created) status.Update(handles_.Release(one));
      return status;
    }
    created.push_back(*handle);
  }
  return created;
}

absl::Status MovableBacking::MapTarget(const StitchPlan& plan) {
  const auto is_seen = [&plan](int64_t page) {
    return plan.target.extent->view(page).handle == plan.handles[static_cast<size_t>(page - plan.target.first)];
  };
  std::vector<PageRun> mapped;
  int64_t page = plan.target.first;
  while (page < plan.target.end()) {
    PageRun run{plan.target.extent, page, 0};
    while (run.end() < plan.target.end() && !is_seen(run.end())) ++run.count;
    page = run.end() + 1;
    if (run.count == 0) continue;
    absl::Status status = MapRun(plan, run);
    if (!status.ok()) {
      // Nothing has used the new views yet, so they can go without waiting for anything.
      for (const PageRun& done : mapped) status.Update(handles_.UnmapRun(done));
      return status;
    }
    mapped.push_back(run);
  }
  return absl::OkStatus();
}

absl::Status MovableBacking::MapRun(const StitchPlan& plan, PageRun run) {
  absl::Status status = DropStaleViews(run);
  PageRun mapped{run.extent, run.first, 0};
  while (status.ok() && mapped.count < run.count) {
    Handle* handle = plan.handles[static_cast<size_t>(mapped.end() - plan.target.first)];
    status = handles_.MapAt(handle, PageRef{run.extent, mapped.end()});
    if (status.ok()) ++mapped.count;
  }
  if (status.ok()) status = device_.SetAccess(run.extent->PageAddress(run.first), Pages(run.count).bytes());
  if (!status.ok() && mapped.count > 0) status.Update(handles_.UnmapRun(mapped));
  return status;
}

absl::Status MovableBacking::DropStaleViews(PageRun run) {
  int64_t page = run.first;
  while (page < run.end()) {
    PageRun stale{run.extent, page, 0};
    while (stale.end() < run.end() && run.extent->view(stale.end()).state == View::State::kStale) ++stale.count;
    if (stale.count > 0) {
      absl::Status status = handles_.UnmapRun(stale);
      if (!status.ok()) return status;
    }
    page = stale.end() + 1;
  }
  return absl::OkStatus();
}

bool MovableBacking::Settles(const Arena& arena, const StitchPlan& plan) {
  // Small blocks come and go too often for their pages to follow.
  if (plan.to_create > Pages(0) || arena.group() == SizeGroup::kSmall) return true;
  bool all_for_good = true;
  const Arena* counted = nullptr;
  for (const Handle* handle : plan.handles) {
    Arena& home = handle->home.extent->arena();
    if (&home != counted && home.stream() != arena.stream()) home.CountLoan();
    counted = &home;
    all_for_good &= home.loans_since_miss() > kMostLoans;
  }
  return all_for_good;
}

void MovableBacking::EnterInBooks(Arena& arena, const StitchPlan& plan) {
  const bool settles = Settles(arena, plan);
  for (size_t i = 0; i < plan.handles.size(); ++i) {
    Handle* handle = plan.handles[i];
    if (handle->place.extent == nullptr) {
      ledger_.Acquired(arena.group(), kPageSize, 1);
    } else {
      ledger_.MovedBetweenGroups(handle->place.extent->arena().group(), arena.group(), kPageSize);
    }
    handles_.Move(handle, PageRef{plan.target.extent, plan.target.first + static_cast<int64_t>(i)});
    if (settles) handles_.Settle(handle);
  }
  for (const Donation& donation : plan.donations) {
    donation.block->extent->arena().Vacate(donation.block, donation.run);
  }
  arena.Fill(plan.target);
  if (plan.donations.empty()) return;
  ++ledger_.statistics().num_stitches;
  ledger_.statistics().num_stitched_pages += plan.target.count - plan.to_create.count();
}

absl::StatusOr<Bytes> MovableBacking::ReturnFree(Bytes enough) {
  Bytes returned;
  absl::Status status = ReturnSpares(enough, returned);
  for (Arena* arena : arenas_.all()) {
    if (!status.ok()) return status;
    status = ReturnPagesOf(*arena, enough, returned);
  }
  if (!status.ok()) return status;
  return returned;
}

absl::StatusOr<Bytes> MovableBacking::ReturnIdle(Bytes enough, const UseMarks& marks) {
  Bytes returned;
  for (Arena* arena : arenas_.all()) {
    if (arena->free_blocks().LargestSize() < kPageSize) continue;
    for (Donation& donation : WholeFreePages(*arena)) {
      if (returned >= enough) return returned;
      const absl::StatusOr<bool> is_idle = IsIdle(donation, marks);
      if (!is_idle.ok()) return is_idle.status();
      if (!*is_idle) continue;
      TakeEnd(donation.run, enough - returned);
      absl::Status status = ReturnRun(*arena, donation, returned);
      if (!status.ok()) return status;
    }
  }
  return returned;
}

absl::StatusOr<bool> MovableBacking::IsIdle(const Donation& donation, const UseMarks& marks) {
  absl::StatusOr<bool> is_idle = marks.IsIdle(*donation.block);
  for (int64_t page = donation.run.first; page < donation.run.end(); ++page) {
    for (const PageRef& place : donation.run.extent->view(page).handle->stale) {
      if (!is_idle.ok() || !*is_idle) return is_idle;
      Timeline& user = place.extent->arena().timeline();
      is_idle = user.HasPassedOnceEnded(place.extent->view(place.page).last_use);
    }
  }
  return is_idle;
}

absl::Status MovableBacking::ReturnSpares(Bytes enough, Bytes& returned) {
  absl::Status status;
  for (Handle* spare : handles_.TakeSpares()) {
    const absl::Status unseen = returned < enough ? UnmapStaleViews(*spare) : absl::UnavailableError("not wanted");
    if (!unseen.ok()) {
      handles_.Keep(spare);
      if (!absl::IsUnavailable(unseen)) status.Update(unseen);
      continue;
    }
    absl::Status released = handles_.Release(spare);
    if (released.ok()) returned += kPageSize;
    status.Update(released);
  }
  return status;
}

absl::Status MovableBacking::ReturnPagesOf(Arena& arena, Bytes enough, Bytes& returned) {
  std::vector<Donation> free_pages = WholeFreePages(arena);
  if (free_pages.empty() || returned >= enough) return absl::OkStatus();
  absl::Status status = arena.timeline().Synchronize(arena.timeline().now());
  if (absl::IsUnavailable(status)) return absl::OkStatus();
  for (Donation& donation : free_pages) {
    if (!status.ok() || returned >= enough) break;
    TakeEnd(donation.run, enough - returned);
    status = ReturnRun(arena, donation, returned);
  }
  return status;
}

absl::Status MovableBacking::ReturnRun(Arena& arena, const Donation& donation, Bytes& returned) {
  std::vector<Handle*> handles;
  for (int64_t page = donation.run.first; page < donation.run.end(); ++page) {
    Handle* handle = donation.run.extent->view(page).handle;
    handles.push_back(handle);
    absl::Status status = UnmapStaleViews(*handle);
    // A stream that is being captured may use the view; the run stays whole.
    if (absl::IsUnavailable(status)) return absl::OkStatus();
    if (!status.ok()) return status;
  }
  absl::Status status = handles_.UnmapRun(donation.run);
  if (!status.ok()) return status;
  arena.Vacate(donation.block, donation.run);
  for (Handle* handle : handles) {
    ledger_.Relinquished(arena.group(), kPageSize, 1);
    status.Update(handles_.Release(handle));
  }
  returned += Pages(donation.run.count).bytes();
  return status;
}

absl::Status MovableBacking::UnmapStaleViews(Handle& handle) {
  while (!handle.stale.empty()) {
    const PageRef place = handle.stale.back();
    absl::Status status = place.extent->arena().timeline().Synchronize(place.extent->view(place.page).last_use);
    if (status.ok()) status = handles_.UnmapRun(PageRun{place.extent, place.page, 1});
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void MovableBacking::CheckInvariants() const {
  handles_.CheckInvariants();
  const Bytes reserved(ledger_.statistics().reserved_bytes[SizeGroup::kAll].current);
  FRUGAL_CHECK(reserved + handles_.spares().bytes() == handles_.held().bytes());
}

}  // namespace frugal
