#include "allocator/backing/movable_backing.h"

#include <memory>

#include "allocator/port/check.h"
#include "allocator/stitching/target.h"
#include "allocator/stitching/unusable.h"

namespace frugal {
MovableBacking::MovableBacking(Device& device, ArenaSet& arenas, Ledger& ledger, MemoryLimit& memory_limit,
                               StreamClocks& clocks, AddressDirectory& directory, DeviceAllocator* owner,
                               AllocatorLocks lock)
    : arenas_(arenas),
      ledger_(ledger),
      memory_limit_(memory_limit),
      clocks_(clocks),
      handles_(device, clocks, ledger, memory_limit.shared(), lock),
      guests_(arenas, handles_),
      returns_(arenas, handles_, clocks, ledger),
      views_(arenas, handles_, clocks, ledger),
      ranges_(device, ledger, memory_limit, directory, owner, lock),
      planner_(settings_, arenas, ledger, memory_limit, handles_, returns_, views_, ranges_) {}

MovableBacking::~MovableBacking() {
  absl::Status status = handles_.ReleaseAll();
  status.Update(ranges_.ReleaseAll(arenas_));
  FRUGAL_CHECK(status.ok());
}

absl::Status MovableBacking::Extend(Arena& arena, Bytes size, WaitPolicy wait_policy) {
  if (absl::Status fits = CheckDeviceHolds(size); !fits.ok()) return fits;
  absl::Status status = Serve({arena, size, wait_policy, StreamQuestions(clocks_, ledger_)});
  // The arena's stream is being captured, so it can wait for nobody.
  if (absl::IsUnavailable(status)) {
    status = Serve({arena, size, WaitPolicy::kPassed, StreamQuestions(clocks_, ledger_)});
  }
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

absl::Status MovableBacking::Serve(Attempt attempt) {
  if (settings_.remaps) guests_.Recall(attempt);
  views_.Keep();
  absl::Status status = planner_.Plan(attempt);
  if (!status.ok()) return status;
  status = Commit(attempt);
  if (status.ok() || !attempt.can_do_without_new) return status;
  ledger_.failures().Absorb(status);
  status = planner_.PlanWithoutNew(attempt);
  return status.ok() ? Commit(attempt) : status;
}

absl::Status MovableBacking::CheckDeviceHolds(Bytes size) {
  if (size <= handles_.held().bytes()) return absl::OkStatus();
  const absl::StatusOr<Bytes> total = memory_limit_.DeviceTotal();
  if (!total.ok()) return total.status();
  return size <= *total ? absl::OkStatus() : absl::ResourceExhaustedError("larger than the device");
}

absl::Status MovableBacking::Commit(Attempt& attempt) {
  StitchPlan& plan = attempt.plan;
  const std::vector<Attempt::LastUse> last_uses = attempt.LastUsesOfDonors();
  StitchClaims claims(attempt.arena, plan);
  absl::Status status = attempt.OrderAfter(last_uses, ledger_);
  if (status.ok()) status = MakeTarget(handles_, plan);
  if (!status.ok()) {
    claims.Undo();
    plan.promised.Cancel();
    return absl::IsAborted(status) ? MakeRoomForMappings(status) : status;
  }
  attempt.arena.past_stitches().Add(plan.size, plan.target);
  EnterStitch(attempt, claims);
  return absl::OkStatus();
}

absl::Status MovableBacking::MakeRoomForMappings(const absl::Status& failure) {
  views_.MakeRoomForMappings();
  return absl::InternalError(failure.message());
}

void MovableBacking::EnterStitch(Attempt& attempt, StitchClaims& claims) {
  const StitchPlan& plan = attempt.plan;
  // Small blocks come and go too often for their pages to follow.
  const bool settles =
      settings_.options.homes == 0 || plan.to_create > Pages(0) || attempt.arena.group() == SizeGroup::kSmall;
  int64_t page = plan.target.first;
  for (const Piece& piece : plan.pieces) {
    Handle* handle = piece.handle;
    handles_.Move(handle, PageRef{plan.target.extent, page});
    // What graphs may read never waits for what was put into a stream, as what comes home does.
    const bool was_of_graphs = handle->home.extent != nullptr && handle->home.extent->kind() == MemoryKind::kFixed;
    if (settles || was_of_graphs) handles_.Settle(handle);
    page += piece.pages;
  }
  claims.Vacate();
  attempt.arena.Fill(plan.target);
  if (plan.donations.empty()) return;
  if (!settles) guests_.MovedInto(plan.target);
  ledger_.Stitched(Pages(plan.target.count) - plan.to_create);
}

absl::Status MovableBacking::KeepInPlace(Address start, Bytes size, bool keep) {
  const absl::StatusOr<PageRun> run = LivePages(start, size);
  if (!run.ok()) return run.status();
  // Free memory may be let go of, since it stays when its block is given back.
  if (keep && !run->extent->IsAllocated(start, start + size))
    return absl::NotFoundError("the range is not all in use: keep a tensor's memory while the tensor lives");
  std::vector<Handle*> handles;
  for (int64_t page = run->first; page < run->end(); ++page) {
    Handle* const handle = run->extent->pages().view(page).handle;
    FRUGAL_CHECK(handle != nullptr);
    if (!keep && handle->keepers == 0) return absl::FailedPreconditionError("the memory was not kept in place");
    if (handles.empty() || handles.back() != handle) handles.push_back(handle);
  }
  for (Handle* handle : handles) handles_.KeepInPlace(handle, keep);
  return absl::OkStatus();
}

void MovableBacking::Fix(PageRun run, bool fixed) {
  for (int64_t page = run.first; page < run.end();) {
    const View& view = run.extent->pages().view(page);
    if (view.state == View::State::kLive) {
      handles_.Fix(view.handle, fixed);
      page = RunOf(*view.handle, view.handle->place).end();
    } else {
      ++page;
    }
  }
}

absl::StatusOr<PageRun> MovableBacking::LivePages(Address start, Bytes size) const {
  for (const Arena* arena : arenas_.mapped()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      if (!extent->Contains(start) || size <= Bytes(0) || extent->end() - start < size) continue;
      const int64_t first = (start - extent->start()).count() / kPageSize.count();
      const int64_t end = PagesCovering(start + size - extent->start()).count();
      for (int64_t page = first; page < end; ++page) {
        if (extent->pages().view(page).state != View::State::kLive)
          return absl::NotFoundError("the range is not all in use");
      }
      return PageRun{extent.get(), first, end - first};
    }
  }
  return absl::NotFoundError("the range is not ours");
}

void MovableBacking::CheckInvariants() const {
  handles_.CheckInvariants();
  guests_.CheckInvariants();
  for (const Arena* arena : arenas_.mapped()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      CheckUnusable(*extent);
    }
  }
}

}  // namespace frugal
