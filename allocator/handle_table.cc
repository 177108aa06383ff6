#include "allocator/handle_table.h"

#include <algorithm>
#include <utility>

#include "allocator/arena.h"
#include "allocator/check.h"

namespace frugal {

absl::StatusOr<Handle*> HandleTable::Create() {
  if (!spares_.empty()) {
    Handle* spare = spares_.back();
    spares_.pop_back();
    return spare;
  }
  absl::StatusOr<PhysicalHandle> physical = device_.Create();
  if (!physical.ok()) return physical.status();
  auto handle = std::make_unique<Handle>();
  handle->physical = *physical;
  Handle* created = handle.get();
  handles_.emplace(created, std::move(handle));
  return created;
}

absl::Status HandleTable::Release(Handle* handle) {
  FRUGAL_CHECK(handle->place.extent == nullptr);
  absl::Status status = handle->stale.empty() ? device_.Release(handle->physical)
                                              : absl::FailedPreconditionError("a view of the handle is still mapped");
  if (status.ok()) {
    handles_.erase(handle);
  } else {
    spares_.push_back(handle);
  }
  return status;
}

absl::Status HandleTable::ReleaseAll() {
  absl::Status first;
  for (const auto& [handle, owned] : handles_) {
    auto places = handle->stale;
    if (handle->place.extent != nullptr) places.push_back(handle->place);
    for (const PageRef& place : places) first.Update(UnmapRun(PageRun{place.extent, place.page, 1}));
    first.Update(device_.Release(handle->physical));
  }
  handles_.clear();
  spares_.clear();
  return first;
}

absl::Status HandleTable::MapAt(Handle* handle, PageRef place) {
  View& view = place.extent->MutableView(place.page);
  FRUGAL_CHECK(view.state == View::State::kNone);
  absl::Status status = device_.Map(place.extent->PageAddress(place.page), handle->physical);
  if (!status.ok()) return status;
  view = View{View::State::kStale, handle};
  handle->stale.push_back(place);
  return absl::OkStatus();
}

absl::Status HandleTable::UnmapRun(PageRun run, int64_t* unmapped) {
  for (int64_t page = run.first; page < run.end(); ++page) {
    absl::Status status = device_.Unmap(run.extent->PageAddress(page), kPageSize);
    if (!status.ok()) return status;
    Unmapped({run.extent, page});
    if (unmapped != nullptr) ++*unmapped;
  }
  return absl::OkStatus();
}

void HandleTable::Unmapped(PageRef place) {
  View& view = place.extent->MutableView(place.page);
  Handle* const handle = view.handle;
  if (handle->place == place) {
    Settle(handle);
    handle->place = handle->home = PageRef();
  } else {
    // A guest whose home goes has it where it is.
    if (handle->home == place) Settle(handle);
    EraseStale(*handle, place);
  }
  view = View();
}

void HandleTable::Move(Handle* handle, PageRef place) {
  View& view = place.extent->MutableView(place.page);
  FRUGAL_CHECK(view.handle == handle && view.state == View::State::kStale);
  EraseStale(*handle, place);
  if (handle->place.extent != nullptr) {
    Extent& old = *handle->place.extent;
    View& left = old.MutableView(handle->place.page);
    left.state = View::State::kStale;
    left.last_use = old.arena().timeline().now();
    left.left_in = timelines_.era();
    handle->stale.push_back(handle->place);
    if (handle->IsGuest()) old.CountGuests(-1);
  }
  view.state = View::State::kLive;
  handle->place = place;
  if (handle->IsGuest()) place.extent->CountGuests(1);
}

void HandleTable::Settle(Handle* handle) {
  if (handle->IsGuest()) handle->place.extent->CountGuests(-1);
  handle->home = handle->place;
}

void HandleTable::EraseStale(Handle& handle, const PageRef& place) {
  auto stale = std::find(handle.stale.begin(), handle.stale.end(), place);
  FRUGAL_CHECK(stale != handle.stale.end());
  handle.stale.erase(stale);
}

void HandleTable::CheckInvariants() const {
  size_t homeless = 0;
  absl::flat_hash_map<const Extent*, int64_t> guests;
  absl::flat_hash_map<const Extent*, int64_t> in_place;
  for (const auto& [handle, owned] : handles_) {
    CheckStaleViews(*handle);
    if (handle->place.extent == nullptr) {
      ++homeless;
      continue;
    }
    const View& live = handle->place.extent->view(handle->place.page);
    FRUGAL_CHECK(live.handle == handle && live.state == View::State::kLive);
    FRUGAL_CHECK(handle->home.extent->view(handle->home.page).handle == handle);
    FRUGAL_CHECK(handle->keepers == 0 || !handle->IsGuest());
    guests[handle->place.extent] += handle->IsGuest() ? 1 : 0;
    in_place[handle->place.extent] += handle->keepers > 0 ? 1 : 0;
  }
  FRUGAL_CHECK(homeless == spares_.size());
  for (const auto& [extent, count] : guests) FRUGAL_CHECK(extent->guests() == count);
  for (const auto& [extent, count] : in_place) FRUGAL_CHECK(extent->in_place() == count);
}

void HandleTable::CheckStaleViews(const Handle& handle) const {
  for (const PageRef& place : handle.stale) {
    const View& view = place.extent->view(place.page);
    FRUGAL_CHECK(view.handle == &handle && view.state == View::State::kStale);
  }
}

}  // namespace frugal
