#include "allocator/movable_backing.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "allocator/check.h"

namespace frugal {
namespace {

// Addresses cost nothing but table entries, and the more there are the longer a frontier can advance before holes
// have to be refilled, which needs an unmap each. Small blocks never need much.
Bytes ExtentSize(SizeGroup group, Bytes device_total, Bytes request) {
  const Bytes usual = group == SizeGroup::kSmall ? Bytes(device_total.count() / 2) : device_total * 2;
  return RoundUp(std::max(usual, request), kPageSize);
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
      handles_(device) {}

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
  Fences fences;
  absl::StatusOr<StitchPlan> plan = Plan(arena, size, reach, fences);
  if (!plan.ok()) return plan.status();
  if (plan->to_create > handles_.spares()) {
    const Pages lacking = plan->to_create - handles_.spares();
    absl::Status allowed = budget_.Allow(handles_.held().bytes(), lacking.bytes());
    if (!allowed.ok()) return allowed;
  }
  return Commit(arena, *plan, fences);
}

absl::Status MovableBacking::AddExtent(Arena& arena, Bytes size) {
  absl::StatusOr<MemoryInfo> info = device_.GetMemoryInfo();
  if (!info.ok()) return info.status();
  const Bytes reserved = ExtentSize(arena.group(), info->total, size);
  absl::StatusOr<Address> start = device_.Reserve(reserved);
  if (!start.ok()) return start.status();
  arena.AddExtent(Extent::Kind::kMovable, *start, reserved);
  directory_.Insert(*start, reserved, owner_);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<const Arena*>> MovableBacking::Donors(const Arena& arena, Reach reach, Fences& fences) {
  std::vector<const Arena*> donors;
  for (const Arena* donor : arenas_.all()) {
    if (donor->free_blocks().LargestSize() < kPageSize) continue;
    std::shared_ptr<Fence>& fence = fences[donor->stream()];
    if (fence == nullptr) {
      absl::StatusOr<std::shared_ptr<Fence>> recorded = Fence::Record(device_, donor->stream());
      if (absl::IsUnavailable(recorded.status())) continue;
      if (!recorded.ok()) return recorded.status();
      fence = *std::move(recorded);
    }
    if (donor->stream() != arena.stream() && reach == Reach::kPassed) {
      absl::StatusOr<bool> passed = fence->HasPassed();
      if (!passed.ok()) return passed.status();
      if (!*passed) continue;
    }
    donors.push_back(donor);
  }
  return donors;
}

absl::StatusOr<StitchPlan> MovableBacking::Plan(Arena& arena, Bytes size, Reach reach, Fences& fences) {
  absl::StatusOr<std::vector<const Arena*>> donors = Donors(arena, reach, fences);
  if (!donors.ok()) return donors.status();
  absl::Status asked;
  const auto is_unusable = [&asked](const View& view) {
    if (view.state != View::State::kStale || view.last_use == nullptr) return false;
    absl::StatusOr<bool> passed = view.last_use->HasPassed();
    asked.Update(passed.status());
    return !passed.ok() || !*passed;
  };
  std::optional<StitchPlan> plan = PlanStitch(arena, size, *donors, is_unusable);
  if (!asked.ok()) return asked;
  if (!plan.has_value()) {
    absl::Status added = AddExtent(arena, size);
    if (!added.ok()) return added;
    plan = PlanStitch(arena, size, *donors, is_unusable);
    FRUGAL_CHECK(plan.has_value());
  }
  return *std::move(plan);
}

absl::Status MovableBacking::Commit(Arena& arena, const StitchPlan& plan, Fences& fences) {
  absl::Status status = OrderAfterDonors(arena, plan, fences);
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<Handle*>> created = Create(plan.to_create);
  if (!created.ok()) return created.status();
  std::vector<Handle*> handles;
  for (const Donation& donation : plan.donations) {
    for (int64_t page = donation.run.first; page < donation.run.end(); ++page) {
      handles.push_back(donation.run.extent->view(page).handle);
    }
  }
  handles.insert(handles.end(), created->begin(), created->end());
  status = MapTarget(plan.target, handles);
  if (!status.ok()) {
    for (Handle* handle : *created) status.Update(handles_.Release(handle));
    return status;
  }
  EnterInBooks(arena, plan, handles, fences);
  return absl::OkStatus();
}

absl::Status MovableBacking::OrderAfterDonors(const Arena& arena, const StitchPlan& plan, Fences& fences) {
  absl::flat_hash_map<Stream, bool> ordered;
  for (const Donation& donation : plan.donations) {
    const Stream donor = donation.block->extent->arena().stream();
    if (donor == arena.stream() || !ordered.emplace(donor, true).second) continue;
    Fence& fence = *fences[donor];
    absl::StatusOr<bool> passed = fence.HasPassed();
    if (!passed.ok()) return passed.status();
    if (*passed) continue;
    absl::Status status = fence.MakeWait(arena.stream());
    if (!status.ok()) return status;
    ++ledger_.statistics().num_stream_waits;
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

absl::Status MovableBacking::MapTarget(PageRun target, const std::vector<Handle*>& handles) {
  absl::Status status = DropStaleViews(target);
  if (!status.ok()) return status;
  PageRun mapped{target.extent, target.first, 0};
  for (Handle* handle : handles) {
    status = handles_.MapAt(handle, PageRef{target.extent, mapped.end()});
    if (!status.ok()) break;
    ++mapped.count;
  }
  if (status.ok()) {
    status = device_.SetAccess(target.extent->PageAddress(target.first), Pages(target.count).bytes());
  }
  // Nothing has used the new views yet, so they can go without waiting for anything.
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

void MovableBacking::EnterInBooks(Arena& arena, const StitchPlan& plan, const std::vector<Handle*>& handles,
                                  Fences& fences) {
  for (size_t i = 0; i < handles.size(); ++i) {
    Handle* handle = handles[i];
    std::shared_ptr<Fence> last_use;
    if (handle->home.extent == nullptr) {
      ledger_.Acquired(arena.group(), kPageSize, 1);
    } else {
      const Arena& donor = handle->home.extent->arena();
      last_use = fences[donor.stream()];
      ledger_.MovedBetweenGroups(donor.group(), arena.group(), kPageSize);
    }
    handles_.MoveHome(handle, PageRef{plan.target.extent, plan.target.first + static_cast<int64_t>(i)},
                      std::move(last_use));
  }
  for (const Donation& donation : plan.donations) {
    donation.block->extent->arena().Vacate(donation.block, donation.run);
  }
  arena.Fill(plan.target);
  if (plan.donations.empty()) return;
  ++ledger_.statistics().num_stitches;
  ledger_.statistics().num_stitched_pages += plan.target.count - plan.to_create.count();
}

absl::StatusOr<Bytes> MovableBacking::ReturnFree() {
  Bytes returned;
  for (Arena* arena : arenas_.all()) {
    absl::Status status = ReturnPagesOf(*arena, returned);
    if (!status.ok()) return status;
  }
  absl::Status status;
  for (Handle* spare : handles_.TakeSpares()) {
    status.Update(UnmapStaleViews(*spare));
    absl::Status released = handles_.Release(spare);
    if (released.ok()) returned += kPageSize;
    status.Update(released);
  }
  if (!status.ok()) return status;
  return returned;
}

absl::Status MovableBacking::ReturnPagesOf(Arena& arena, Bytes& returned) {
  std::vector<Donation> free_pages = WholeFreePages(arena);
  if (free_pages.empty()) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<Fence>> fence = Fence::Record(device_, arena.stream());
  if (absl::IsUnavailable(fence.status())) return absl::OkStatus();
  if (!fence.ok()) return fence.status();
  absl::Status status = (*fence)->Synchronize();
  for (const Donation& donation : free_pages) {
    if (!status.ok()) break;
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
    if (!status.ok()) return status;
  }
  absl::Status status = handles_.UnmapRun(donation.run);
  if (!status.ok()) return status;
  arena.Vacate(donation.block, donation.run);
  for (Handle* handle : handles) {
    ledger_.Relinquished(arena.group(), kPageSize, 1);
    absl::Status released = handles_.Release(handle);
    if (released.ok()) returned += kPageSize;
    status.Update(released);
  }
  return status;
}

absl::Status MovableBacking::UnmapStaleViews(Handle& handle) {
  while (!handle.stale.empty()) {
    const PageRef place = handle.stale.back();
    const std::shared_ptr<Fence> last_use = place.extent->view(place.page).last_use;
    absl::Status status = last_use == nullptr ? absl::OkStatus() : last_use->Synchronize();
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
