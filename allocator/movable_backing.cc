#include "allocator/movable_backing.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
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

// When the driver has no room for mappings, views that nobody uses are dropped, so many at a time: the lock is held for
// 30 us each.
constexpr int64_t kMostDropped = 1024;

bool StaysInStream(const StitchPlan& plan, Stream stream) {
  return std::all_of(plan.donations.begin(), plan.donations.end(),
                     [stream](const Donation& donation) { return donation.run.extent->arena().stream() == stream; });
}

}  // namespace

MovableBacking::MovableBacking(Device& device, ArenaSet& arenas, Ledger& ledger, Budget& budget, Timelines& timelines,
                               AddressDirectory& directory, DeviceAllocator* owner)
    : device_(device),
      arenas_(arenas),
      ledger_(ledger),
      budget_(budget),
      timelines_(timelines),
      directory_(directory),
      owner_(owner),
      handles_(device, timelines),
      guests_(arenas, handles_, ledger),
      returns_(arenas, handles_, timelines, ledger) {}

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
  if (!remaps_) return Grow(arena, size, reach);
  guests_.Recall(arena, reach);
  if (arena.free_blocks().BestFit(size) != nullptr) return absl::OkStatus();
  const Offers offers = FindOffers(arena, reach);
  absl::StatusOr<StitchPlan> plan = Plan(arena, size, offers);
  if (!plan.ok()) return plan.status();
  if (StaysInStream(*plan, arena.stream())) {
    allowance_.Earn(ledger_.statistics().allocation[SizeGroup::kAll].allocated);
    const int64_t remapping = RemapNanoseconds(*plan, costs_);
    if (remapping > 0 && allowance_.IsSpent()) {
      absl::StatusOr<StitchPlan> growing = Plan(arena, size, Offers({}));
      if (growing.ok() && IsWithinSlack(*growing) && Allow(*growing, reach).ok()) {
        return Commit(arena, *growing, reach);
      }
    }
    allowance_.Spend(remapping);
  }
  absl::Status allowed = Allow(*plan, reach);
  if (absl::IsResourceExhausted(allowed) && plan->to_create + offers.pages() > PagesCovering(size)) {
    // The place joins free memory, whose pages it cannot take as well. One apart can take all.
    plan = PlanApart(arena, size, offers);
    allowed = plan.ok() ? Allow(*plan, reach) : plan.status();
  }
  if (!allowed.ok()) return allowed;
  return Commit(arena, *plan, reach);
}

absl::Status MovableBacking::Grow(Arena& arena, Bytes size, Reach reach) {
  absl::StatusOr<StitchPlan> plan = Plan(arena, size, Offers({}));
  if (!plan.ok()) return plan.status();
  absl::Status allowed = Allow(*plan, reach);
  if (absl::IsResourceExhausted(allowed) && reach == Reach::kWithHostWaits) {
    // As with PyTorch's own allocator: what is free elsewhere goes back to the device before memory is out.
    absl::StatusOr<Bytes> returned = returns_.ReturnFree(plan->to_create.bytes());
    if (!returned.ok()) return returned.status();
    // Pages beside the place may be among those that went.
    plan = Plan(arena, size, Offers({}));
    allowed = plan.ok() ? Allow(*plan, reach) : plan.status();
  }
  return allowed.ok() ? Commit(arena, *plan, reach) : allowed;
}

bool MovableBacking::IsWithinSlack(const StitchPlan& plan) const {
  const Counter& active = ledger_.statistics().active_bytes()[SizeGroup::kAll];
  const int64_t most = std::max(active.peak, active.current + plan.size.count());
  return (handles_.held() + plan.to_create).bytes().count() <= most + most / kSlackPart;
}

absl::Status MovableBacking::CheckDeviceHolds(Bytes size) {
  if (size <= handles_.held().bytes()) return absl::OkStatus();
  const absl::StatusOr<Bytes> total = budget_.DeviceTotal();
  if (!total.ok()) return total.status();
  return size <= *total ? absl::OkStatus() : absl::ResourceExhaustedError("larger than the device");
}

absl::Status MovableBacking::Allow(const StitchPlan& plan, Reach reach) {
  if (plan.to_create <= handles_.spares()) return absl::OkStatus();
  const Bytes left = reach >= Reach::kIntoReserve ? Bytes(0) : budget_.reserve();
  return budget_.Allow(handles_.held().bytes(), (plan.to_create - handles_.spares()).bytes(), left);
}

absl::StatusOr<Extent*> MovableBacking::AddExtent(Arena& arena, Bytes size) {
  const absl::StatusOr<Bytes> total = budget_.DeviceTotal();
  if (!total.ok()) return total.status();
  const Bytes least = RoundUp(size, kPageSize);
  Bytes reserved = ExtentSize(arena.group(), *total, size);
  absl::StatusOr<Address> start = device_.Reserve(reserved);
  // Addresses can run out long before memory does: a range is twice the device, and each stream has up to five.
  while (!start.ok() && reserved > least) {
    ledger_.Absorbed(start.status());
    reserved = std::max(least, RoundDown(Bytes(reserved.count() / 2), kPageSize));
    start = device_.Reserve(reserved);
  }
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

Offers MovableBacking::FindOffers(const Arena& arena, Reach reach) {
  std::vector<Donation> donations;
  for (const Arena* donor : arenas_.all()) {
    if (donor->free_blocks().LargestSize() < kPageSize) continue;
    for (const Donation& donation : WholeFreePages(*donor)) {
      if (MayTake(arena, donation, reach)) donations.push_back(donation);
    }
  }
  return Offers(std::move(donations));
}

bool MovableBacking::MayTake(const Arena& arena, const Donation& donation, Reach reach) {
  Timeline& owner = donation.run.extent->arena().timeline();
  if (owner.stream() == arena.stream()) return true;
  const Timeline::Tick last_use = owner.Expand(donation.block->last_use);
  // Work of a stream that is being captured, or whose events fail, cannot be waited for.
  const bool can_be_waited_for = reach >= Reach::kThroughStreamWaits && !owner.fails();
  const absl::StatusOr<bool> may_take = can_be_waited_for ? owner.End(last_use) : owner.HasPassedOnceEnded(last_use);
  // A donor whose stream fails is left out: it must not keep the memory of all others from being used.
  ledger_.Absorbed(may_take.status());
  return may_take.value_or(false);
}

bool MovableBacking::MayUnmap(PageRef page) {
  const View& view = page.extent->view(page.page);
  // The era first: its marks end the tick of the arena's stream, too, unless that is being captured.
  if (!timelines_.HasPassed(view.left_in)) return false;
  const absl::StatusOr<bool> passed = page.extent->arena().timeline().HasPassedOnceEnded(view.last_use);
  ledger_.Absorbed(passed.status());
  return passed.value_or(false);
}

absl::StatusOr<StitchPlan> MovableBacking::Plan(Arena& arena, Bytes size, const Offers& offers) {
  const auto may_unmap = [this](PageRef page) { return MayUnmap(page); };
  std::optional<StitchPlan> plan = PlanStitch(arena, size, offers, may_unmap, costs_);
  // As long as nothing is taken from elsewhere, the first range of an arena needs no other beside it.
  const bool wants_side = plan.has_value() && !plan->donations.empty() && !arena.side().exists();
  if (!plan.has_value() || wants_side) {
    absl::Status added = wants_side ? AddSideExtent(arena) : AddExtent(arena, size).status();
    // Without addresses for a range apart the stitch is made where it was planned.
    if (!added.ok() && !plan.has_value()) return added;
    ledger_.Absorbed(added);
    if (added.ok()) plan = PlanStitch(arena, size, offers, may_unmap, costs_);
    FRUGAL_CHECK(plan.has_value());
  }
  return *std::move(plan);
}

absl::StatusOr<StitchPlan> MovableBacking::PlanApart(Arena& arena, Bytes size, const Offers& offers) {
  std::optional<StitchPlan> plan = PlanStitchApart(arena, size, offers, costs_);
  if (!plan.has_value()) {
    absl::Status added = AddExtent(arena, size).status();
    if (!added.ok()) return added;
    plan = PlanStitchApart(arena, size, offers, costs_);
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
    const bool mappings_ran_out = absl::IsAborted(status);
    for (Handle* handle : *created) status.Update(handles_.Release(handle));
    return mappings_ran_out ? MakeRoomForMappings(status) : status;
  }
  arena.side().Use(plan.target);
  arena.past_stitches().Add(plan.size, plan.target);
  EnterInBooks(arena, plan);
  return absl::OkStatus();
}

absl::Status MovableBacking::MakeRoomForMappings(const absl::Status& failure) {
  DropUnusedViews();
  return absl::InternalError(failure.message());
}

void MovableBacking::DropUnusedViews() {
  int64_t dropped = 0;
  for (const Arena* arena : arenas_.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (int64_t page = 0; page < extent->touched(); ++page) {
        if (dropped == kMostDropped) return;
        if (extent->view(page).state != View::State::kStale || IsKept(*extent, page)) continue;
        if (!MayUnmap({extent.get(), page})) continue;
        // What cannot be unmapped now stays as it is, which harms nobody.
        ledger_.Absorbed(handles_.UnmapRun({extent.get(), page, 1}, &dropped));
      }
    }
  }
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

absl::Status MovableBacking::KeepInPlace(Address start, Bytes size, bool keep) {
  const absl::StatusOr<PageRun> run = LivePages(start, size);
  if (!run.ok()) return run.status();
  std::vector<Handle*> handles;
  for (int64_t page = run->first; page < run->end(); ++page) {
    Handle* const handle = run->extent->view(page).handle;
    FRUGAL_CHECK(handle != nullptr);
    if (!keep && handle->keepers == 0) return absl::FailedPreconditionError("the memory was not kept in place");
    handles.push_back(handle);
  }
  for (Handle* handle : handles) {
    if (keep) handles_.Settle(handle);
    handle->keepers += keep ? 1 : -1;
    if (handle->keepers == (keep ? 1 : 0)) run->extent->CountInPlace(keep ? 1 : -1);
  }
  return absl::OkStatus();
}

absl::StatusOr<PageRun> MovableBacking::LivePages(Address start, Bytes size) const {
  for (const Arena* arena : arenas_.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      if (!extent->Contains(start) || size <= Bytes(0) || extent->end() - start < size) continue;
      const int64_t first = (start - extent->start()).count() / kPageSize.count();
      const int64_t end = PagesCovering(start + size - extent->start()).count();
      for (int64_t page = first; page < end; ++page) {
        if (extent->view(page).state != View::State::kLive) return absl::NotFoundError("the range is not all in use");
      }
      return PageRun{extent.get(), first, end - first};
    }
  }
  return absl::NotFoundError("the range is not ours");
}

void MovableBacking::CheckInvariants() const {
  handles_.CheckInvariants();
  const Bytes reserved(ledger_.statistics().reserved_bytes[SizeGroup::kAll].current);
  FRUGAL_CHECK(reserved + handles_.spares().bytes() == handles_.held().bytes());
}

}  // namespace frugal
