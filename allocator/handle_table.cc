#include "allocator/handle_table.h"

#include <algorithm>
#include <utility>

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
  FRUGAL_CHECK(handle->home.extent == nullptr);
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
    if (handle->home.extent != nullptr) places.push_back(handle->home);
    for (const PageRef& place : places) first.Update(UnmapRun(PageRun{place.extent, place.page, 1}));
    first.Update(device_.Release(handle->physical));
  }
  handles_.clear();
  spares_.clear();
  return first;
}

absl::Status HandleTable::MapAt(Handle* handle, PageRef place) {
  View& view = place.extent->view(place.page);
  FRUGAL_CHECK(view.state == View::State::kNone);
  absl::Status status = device_.Map(place.extent->PageAddress(place.page), handle->physical);
  if (!status.ok()) return status;
  view = View{View::State::kStale, handle, nullptr};
  handle->stale.push_back(place);
  return absl::OkStatus();
}

absl::Status HandleTable::UnmapRun(PageRun run) {
  absl::Status status = device_.Unmap(run.extent->PageAddress(run.first), Pages(run.count).bytes());
  if (!status.ok()) return status;
  for (int64_t page = run.first; page < run.end(); ++page) {
    View& view = run.extent->view(page);
    const PageRef place{run.extent, page};
    Handle* handle = view.handle;
    if (handle->home == place) {
      handle->home = PageRef();
    } else {
      auto stale = std::find(handle->stale.begin(), handle->stale.end(), place);
      FRUGAL_CHECK(stale != handle->stale.end());
      handle->stale.erase(stale);
    }
    view = View();
  }
  return absl::OkStatus();
}

void HandleTable::MoveHome(Handle* handle, PageRef place, std::shared_ptr<Fence> last_use) {
  View& view = place.extent->view(place.page);
  FRUGAL_CHECK(view.handle == handle && view.state == View::State::kStale);
  auto stale = std::find(handle->stale.begin(), handle->stale.end(), place);
  FRUGAL_CHECK(stale != handle->stale.end());
  handle->stale.erase(stale);
  if (handle->home.extent != nullptr) {
    View& old = handle->home.extent->view(handle->home.page);
    old.state = View::State::kStale;
    old.last_use = std::move(last_use);
    handle->stale.push_back(handle->home);
  }
  view.state = View::State::kLive;
  view.last_use = nullptr;
  handle->home = place;
}

void HandleTable::CheckInvariants() const {
  size_t homeless = 0;
  for (const auto& [handle, owned] : handles_) {
    CheckStaleViews(*handle);
    if (handle->home.extent == nullptr) {
      ++homeless;
      continue;
    }
    const View& home = handle->home.extent->view(handle->home.page);
    FRUGAL_CHECK(home.handle == handle && home.state == View::State::kLive);
  }
  FRUGAL_CHECK(homeless == spares_.size());
}

void HandleTable::CheckStaleViews(const Handle& handle) const {
  for (const PageRef& place : handle.stale) {
    const View& view = place.extent->view(place.page);
    FRUGAL_CHECK(view.handle == &handle && view.state == View::State::kStale);
  }
}

}  // namespace frugal
