#include "allocator/stitching/handle_table.h"

#include <algorithm>
#include <utility>

#include "allocator/blocks/arena.h"
#include "allocator/port/check.h"

namespace frugal {

Pages HandleTable::LackingFor(const std::vector<Piece>& pieces) const {
  absl::flat_hash_map<int64_t, int64_t> spares;
  for (const Handle* spare : spares_) ++spares[spare->pages];
  Pages lacking;
  for (const Piece& piece : pieces) {
    if (piece.handle == nullptr && --spares[piece.pages] < 0) lacking += Pages(piece.pages);
  }
  return lacking;
}

absl::StatusOr<Handle*> HandleTable::Create(int64_t pages, SizeGroup group, Reservation& promised) {
  const auto spare =
      std::find_if(spares_.begin(), spares_.end(), [pages](const Handle* h) { return h->pages == pages; });
  if (spare != spares_.end()) {
    Handle* const taken = *spare;
    spares_.erase(spare);
    ++in_flight_;
    CountFor(*taken, group);
    return taken;
  }
  const absl::StatusOr<PhysicalHandle> physical =
      lock_.DuringDriverCall([&] { return device_.Create(Pages(pages).bytes()); });
  if (!physical.ok()) return physical.status();
  auto handle = std::make_unique<Handle>();
  handle->physical = *physical;
  handle->pages = pages;
  handle->group = group;
  promised.Redeem(handle->size());
  held_ += Pages(pages);
  ledger_.Acquired(group, handle->size());
  Handle* created = handle.get();
  handles_.emplace(created, std::move(handle));
  ++in_flight_;
  return created;
}

absl::Status HandleTable::CreateLacking(std::vector<Piece>& pieces, SizeGroup group, Reservation& promised,
                                        std::vector<Handle*>& created) {
  for (Piece& piece : pieces) {
    if (piece.handle != nullptr) continue;
    absl::StatusOr<Handle*> handle = Create(piece.pages, group, promised);
    if (!handle.ok()) return handle.status();
    piece.handle = *handle;
    created.push_back(*handle);
  }
  return absl::OkStatus();
}

std::vector<Handle*> HandleTable::TakeSpares() {
  in_flight_ += spares_.size();
  return std::exchange(spares_, {});
}

void HandleTable::Keep(Handle* spare) {
  --in_flight_;
  spares_.push_back(spare);
}

void HandleTable::CountFor(Handle& handle, SizeGroup group) {
  ledger_.MovedBetweenGroups(std::exchange(handle.group, group), group, handle.size());
}

absl::Status HandleTable::Release(Handle* handle) {
  FRUGAL_CHECK(handle->place.extent == nullptr);
  absl::Status status = absl::FailedPreconditionError("a view of the handle is still mapped");
  if (handle->stale.empty()) {
    status = lock_.DuringDriverCall([&] { return device_.Release(handle->physical); });
  }
  if (!status.ok()) {
    Keep(handle);
    return status;
  }
  --in_flight_;
  held_ -= Pages(handle->pages);
  limit_.GiveBack(handle->size());
  ledger_.Relinquished(handle->group, handle->size());
  handles_.erase(handle);
  return status;
}

absl::Status HandleTable::ReleaseAll() {
  absl::Status first;
  for (const auto& [handle, owned] : handles_) {
    auto places = handle->stale;
    if (handle->place.extent != nullptr) places.push_back(handle->place);
    for (const PageRef& place : places) first.Update(UnmapRun(RunOf(*handle, place)));
    first.Update(device_.Release(handle->physical));
  }
  handles_.clear();
  spares_.clear();
  limit_.GiveBack(std::exchange(held_, Pages(0)).bytes());
  in_flight_ = 0;
  return first;
}

absl::Status HandleTable::MapAt(Handle* handle, PageRef place) {
  for (int64_t page = place.page; page < place.page + handle->pages; ++page) {
    FRUGAL_CHECK(place.extent->pages().view(page).state == View::State::kNone);
  }
  const Address start = place.address();
  absl::Status status = lock_.DuringDriverCall([&] { return device_.Map(start, handle->size(), handle->physical); });
  if (!status.ok()) return status;
  for (int64_t part = 0; part < handle->pages; ++part) {
    place.extent->pages().MutableView(place.page + part) =
        View{View::State::kStale, static_cast<int32_t>(part), handle};
  }
  handle->stale.push_back(place);
  ++views_;
  return absl::OkStatus();
}

absl::Status HandleTable::OpenRun(PageRun run) {
  absl::Status status =
      lock_.DuringDriverCall([&] { return device_.SetAccess(run.address(), Pages(run.count).bytes()); });
  if (!status.ok()) return status;
  for (int64_t page = run.first; page < run.end(); ++page) run.extent->pages().MutableView(page).accessible = true;
  return absl::OkStatus();
}

absl::Status HandleTable::UnmapRun(PageRun run, int64_t* unmapped) {
  for (int64_t page = run.first; page < run.end(); ++page) {
    if (run.extent->pages().view(page).state == View::State::kNone) continue;
    const PageRef start = StartOfView({run.extent, page});
    const Handle* const handle = run.extent->pages().view(page).handle;
    FRUGAL_CHECK(handle != nullptr);
    absl::Status status = lock_.DuringDriverCall([&] { return device_.Unmap(start.address(), handle->size()); });
    if (!status.ok()) return status;
    if (unmapped != nullptr) *unmapped += handle->pages;
    Unmapped(start);
  }
  return absl::OkStatus();
}

absl::Status HandleTable::MapPieces(absl::Span<const Piece> pieces, PageRun run) {
  absl::Status status = UnmapRun(run);
  PageRun mapped{run.extent, run.first, 0};
  for (const Piece& piece : pieces) {
    if (!status.ok()) break;
    status = MapAt(piece.handle, PageRef{run.extent, mapped.end()});
    if (status.ok()) mapped.count += piece.pages;
  }
  if (status.ok()) status = OpenRun(run);
  if (!status.ok() && mapped.count > 0) status.Update(UnmapRun(mapped));
  return status;
}

void HandleTable::Unmapped(PageRef place) {
  Handle* const handle = place.view().handle;
  FRUGAL_CHECK(handle != nullptr);
  --views_;
  if (handle->place == place) {
    Settle(handle);
    Fix(handle, false);
    handle->place = handle->home = PageRef();
    ++in_flight_;
  } else {
    // A guest whose home goes has it where it is.
    if (handle->home == place) Settle(handle);
    EraseStale(*handle, place);
  }
  for (int64_t part = 0; part < handle->pages; ++part) place.extent->pages().MutableView(place.page + part) = View();
}

void HandleTable::Move(Handle* handle, PageRef place) {
  CountFor(*handle, place.extent->arena().group());
  EraseStale(*handle, place);
  if (handle->place.extent != nullptr) {
    Extent& old = *handle->place.extent;
    const StreamClock::Tick now = old.arena().clock().now();
    for (int64_t part = 0; part < handle->pages; ++part) {
      View& left = old.pages().MutableView(handle->place.page + part);
      left.state = View::State::kStale;
      left.last_use = now;
      left.left_in = clocks_.era();
    }
    handle->stale.push_back(handle->place);
    if (handle->IsGuest()) old.pages().CountGuests(-1);
  } else {
    --in_flight_;
  }
  for (int64_t part = 0; part < handle->pages; ++part) {
    View& view = place.extent->pages().MutableView(place.page + part);
    FRUGAL_CHECK(view.handle == handle && view.state == View::State::kStale && view.part == part);
    view.state = View::State::kLive;
  }
  handle->place = place;
  if (handle->IsGuest()) place.extent->pages().CountGuests(1);
}

void HandleTable::Settle(Handle* handle) {
  if (handle->IsGuest()) handle->place.extent->pages().CountGuests(-1);
  handle->home = handle->place;
}

void HandleTable::KeepInPlace(Handle* handle, bool keep) {
  const bool stayed = handle->Stays();
  if (keep) Settle(handle);
  handle->keepers += keep ? 1 : -1;
  CountStaying(*handle, stayed);
}

void HandleTable::Fix(Handle* handle, bool fixed) {
  if (handle->is_fixed == fixed) return;
  const bool stayed = handle->Stays();
  if (fixed) Settle(handle);
  handle->is_fixed = fixed;
  CountStaying(*handle, stayed);
}

void HandleTable::CountStaying(const Handle& handle, bool stayed) {
  const int change = static_cast<int>(handle.Stays()) - static_cast<int>(stayed);
  if (change != 0) handle.place.extent->pages().CountInPlace(change);
}

void HandleTable::EraseStale(Handle& handle, const PageRef& place) {
  auto stale = std::find(handle.stale.begin(), handle.stale.end(), place);
  FRUGAL_CHECK(stale != handle.stale.end());
  handle.stale.erase(stale);
}

void HandleTable::CheckInvariants() const {
  size_t homeless = 0;
  Pages held;
  int64_t views = 0;
  absl::flat_hash_map<const Extent*, int64_t> guests;
  absl::flat_hash_map<const Extent*, int64_t> in_place;
  for (const auto& [handle, owned] : handles_) {
    held += Pages(handle->pages);
    views += std::ssize(handle->stale) + (handle->place.extent == nullptr ? 0 : 1);
    for (const PageRef& place : handle->stale) CheckView(*handle, place, View::State::kStale);
    if (handle->place.extent == nullptr) {
      ++homeless;
      continue;
    }
    CheckView(*handle, handle->place, View::State::kLive);
    FRUGAL_CHECK(handle->group == handle->place.extent->arena().group());
    FRUGAL_CHECK(handle->home.extent->pages().view(handle->home.page).handle == handle);
    FRUGAL_CHECK(!handle->Stays() || !handle->IsGuest());
    guests[handle->place.extent] += handle->IsGuest() ? 1 : 0;
    in_place[handle->place.extent] += handle->Stays() ? 1 : 0;
  }
  FRUGAL_CHECK(homeless == spares_.size() + in_flight_ && held == held_ && views == views_);
  for (const auto& [extent, count] : guests) FRUGAL_CHECK(extent->pages().guests() == count);
  for (const auto& [extent, count] : in_place) FRUGAL_CHECK(extent->pages().in_place() == count);
}

void HandleTable::CheckView(const Handle& handle, PageRef place, View::State state) {
  for (int64_t part = 0; part < handle.pages; ++part) {
    const View& view = place.extent->pages().view(place.page + part);
    FRUGAL_CHECK(view.handle == &handle && view.state == state && view.part == part);
  }
}

}  // namespace frugal
