#include "allocator/backing/movable_backing.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/blocks/stream_clock.h"
#include "allocator/port/check.h"
#include "allocator/stitching/unusable.h"

namespace frugal {
namespace {

// Addresses cost nothing but table entries, and the more there are the longer a frontier can advance before holes
// have to be refilled, which needs an unmap each. Small blocks never need much, and there may be many pools.
Bytes ExtentSize(const Arena& arena, Bytes device_total, Bytes request) {
  const bool is_large = arena.size_class() == SizeClass::kLarge;
  const Bytes usual = is_large ? device_total * 2 : Bytes(device_total.count() / 4);
  const Bytes part = arena.pool().is_default() ? usual : Bytes(usual.count() / 8);
  return RoundUp(std::max(part, request), kPageSize);
}

absl::Status AlreadyThere() { return absl::AlreadyExistsError("there is a free block that is large enough"); }

}  // namespace

MovableBacking::MovableBacking(Device& device, ArenaSet& arenas, Ledger& ledger, MemoryLimit& memory_limit,
                               StreamClocks& clocks, AddressDirectory& directory, DeviceAllocator* owner,
                               AllocatorLocks lock)
    : device_(device),
      arenas_(arenas),
      ledger_(ledger),
      memory_limit_(memory_limit),
      directory_(directory),
      owner_(owner),
      clocks_(clocks),
      lock_(lock),
      handles_(device, clocks, ledger, memory_limit.shared(), lock),
      guests_(arenas, handles_),
      returns_(arenas, handles_, clocks, ledger),
      views_(arenas, handles_, clocks, ledger) {}

MovableBacking::~MovableBacking() {
  absl::Status status = handles_.ReleaseAll();
  for (Arena* arena : arenas_.mapped()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      directory_.Erase(extent->start());
      status.Update(device_.Unreserve(extent->start(), extent->size()));
    }
  }
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
  if (remaps_) guests_.Recall(attempt);
  views_.Keep();
  absl::Status status = PlanAgain(attempt);
  if (status.ok()) return Commit(attempt);
  if (!absl::IsNotFound(status)) return status;
  // Before anything is planned, since others go on meanwhile.
  attempt.device = memory_limit_.Ask();
  status = ChoosePlan(attempt);
  if (!status.ok()) return status;
  status = Commit(attempt);
  if (remaps_ && !status.ok() && attempt.plan.donations.empty()) {
    // What new memory is refused, for whatever reason, free memory may still serve.
    ledger_.failures().Absorb(status);
    attempt.device = memory_limit_.Ask();
    attempt.largest_new = Pages(1);
    attempt.saves_pages = true;
    status = PlanRemapping(attempt);
    if (status.ok()) status = Commit(attempt);
  }
  return status;
}

absl::Status MovableBacking::PlanAgain(Attempt& attempt) {
  std::optional<StitchPlan> plan;
  const bool has_room = attempt.questions.Choose([&] {
    if (attempt.HasRoom()) return true;
    if (remaps_ && options_.past_stitches > 0) {
      plan = PlanStitchAgain(attempt.arena, attempt.size, OffersFor(attempt));
    }
    return false;
  });
  if (has_room) return AlreadyThere();
  if (!plan.has_value()) return absl::NotFoundError("not as before");
  attempt.plan = *std::move(plan);
  return absl::OkStatus();
}

absl::Status MovableBacking::ChoosePlan(Attempt& attempt) {
  if (!remaps_) return PlanInPlace(attempt);
  ledger_.failures().Absorb(attempt.device.status());
  if (!attempt.device.ok()) return PlanRemapping(attempt);
  const Bytes left = memory_limit_.Left(*attempt.device);
  attempt.largest_new = LargestPiece(attempt.size, left);
  attempt.saves_pages = left < handles_.held().bytes();
  if (left * options_.borrow_part < handles_.held().bytes() && HasPieceFor(attempt)) return AlreadyThere();
  // Any growth takes a page at least.
  if (IsWorthGrowing(kPageSize, attempt.size, left)) {
    absl::Status status = Plan(&PlanStitch, attempt, /*remaps=*/false);
    if (!status.ok()) return status;
    if (IsWorthGrowing(attempt.plan.to_create.bytes(), attempt.size, left)) {
      status = Allow(attempt);
      // Others may have taken of the limit meanwhile.
      if (!absl::IsResourceExhausted(status)) return status;
    }
  }
  return PlanRemapping(attempt);
}

bool MovableBacking::HasPieceFor(const Attempt& attempt) const {
  const Arena* const other = arenas_.WithRoom(attempt.arena, attempt.size);
  if (other == nullptr) return false;
  const Block& block = *other->free_blocks().BestFit(attempt.size);
  return UnusablePart(block) + KeptPart(block) == block.size;
}

absl::Status MovableBacking::PlanRemapping(Attempt& attempt) {
  absl::Status status = PlanWithOffers(attempt);
  if (!absl::IsResourceExhausted(status) || handles_.spares().empty()) return status;
  // A spare of another size stands for none of the pieces, but keeps memory that they could be made of.
  ledger_.failures().Absorb(returns_.ReturnSpares().status());
  attempt.device = memory_limit_.Ask();
  return PlanWithOffers(attempt);
}

absl::Status MovableBacking::PlanWithOffers(Attempt& attempt) {
  absl::Status status = Plan(&PlanStitch, attempt, /*remaps=*/true);
  if (!status.ok()) return status;
  status = Allow(attempt);
  if (absl::IsResourceExhausted(status) && attempt.plan.to_create + attempt.on_offer > PagesCovering(attempt.size)) {
    // The place joins free memory, whose pages it cannot take as well. One apart can take all.
    status = Plan(&PlanStitchApart, attempt, /*remaps=*/true);
    if (status.ok()) status = Allow(attempt);
  }
  return status;
}

absl::Status MovableBacking::PlanInPlace(Attempt& attempt) {
  absl::Status status = Plan(&PlanStitch, attempt, /*remaps=*/false);
  if (!status.ok()) return status;
  status = Allow(attempt);
  if (absl::IsResourceExhausted(status) && attempt.wait_policy == WaitPolicy::kWithHostWaits) {
    // As with PyTorch's own allocator: what is free elsewhere goes back to the device before memory is out.
    status = returns_.ReturnFree(attempt.plan.to_create.bytes(), std::nullopt).status();
    if (!status.ok()) return status;
    attempt.device = memory_limit_.Ask();
    // Pages beside the place may be among those that went.
    status = Plan(&PlanStitch, attempt, /*remaps=*/false);
    if (status.ok()) status = Allow(attempt);
  }
  return status;
}

Pages MovableBacking::LargestPiece(Bytes size, Bytes left) const {
  const int64_t most =
      std::min(PagesCovering(left).count() / options_.piece_part, PagesCovering(size).count() / options_.request_part);
  const int64_t pages = std::clamp<int64_t>(most, 1, options_.largest_piece);
  return Pages(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(pages))));
}

bool MovableBacking::IsWorthGrowing(Bytes more, Bytes size, Bytes left) const {
  if (more > left) return false;
  const Counter& active = ledger_.statistics().active_bytes()[SizeGroup::kAll];
  const int64_t most = std::max({most_in_use_.count(), active.peak, active.current + size.count()});
  const int64_t beyond = ledger_.statistics().reserved_bytes[SizeGroup::kAll].current + more.count() - most;
  const int64_t of_use = std::max(most / options_.use_part, Pages(options_.largest_piece).bytes().count());
  return beyond <= std::min((left - more).count() / options_.waste_part, of_use);
}

absl::Status MovableBacking::CheckDeviceHolds(Bytes size) {
  if (size <= handles_.held().bytes()) return absl::OkStatus();
  const absl::StatusOr<Bytes> total = memory_limit_.DeviceTotal();
  if (!total.ok()) return total.status();
  return size <= *total ? absl::OkStatus() : absl::ResourceExhaustedError("larger than the device");
}

absl::Status MovableBacking::Allow(Attempt& attempt) {
  const Pages more = handles_.LackingFor(attempt.plan.pieces);
  if (more == Pages(0)) return absl::OkStatus();
  if (!attempt.device.ok()) return attempt.device.status();
  const Bytes left = attempt.wait_policy >= WaitPolicy::kIntoReserve ? Bytes(0) : memory_limit_.reserve();
  absl::StatusOr<Reservation> promised = memory_limit_.Reserve(*attempt.device, more.bytes(), left);
  if (!promised.ok()) return promised.status();
  attempt.plan.promised = *std::move(promised);
  return absl::OkStatus();
}

absl::StatusOr<Extent*> MovableBacking::AddExtent(Arena& arena, Bytes size) {
  const absl::StatusOr<Bytes> total = memory_limit_.DeviceTotal();
  if (!total.ok()) return total.status();
  const Bytes least = RoundUp(size, kPageSize);
  Bytes reserved = ExtentSize(arena, *total, size);
  const auto reserve = [&] { return lock_.DuringDriverCall([&] { return device_.Reserve(reserved); }); };
  absl::StatusOr<Address> start = reserve();
  // Addresses can run out long before memory does: the ranges of a stream are 3.5 times the device.
  while (!start.ok() && reserved > least) {
    ledger_.failures().Absorb(start.status());
    reserved = std::max(least, RoundDown(Bytes(reserved.count() / 2), kPageSize));
    start = reserve();
  }
  if (!start.ok()) return start.status();
  Extent& extent = arena.AddExtent(*start, reserved);
  directory_.Insert(*start, reserved, owner_);
  return &extent;
}

Offers MovableBacking::OffersFor(Attempt& attempt) {
  return Offers(arenas_.mapped(), [&attempt](const Block& block) { return attempt.MayTake(block); });
}

absl::Status MovableBacking::Plan(Planner* planner, Attempt& attempt, bool remaps) {
  StreamQuestions& questions = attempt.questions;
  const auto may_unmap = [&questions](PageRef page) { return PageReturns::HasLeft(page, questions); };
  bool asked_again = false;
  for (bool made_places = false;;) {
    // Others may have gone on since the last look, and a plan for what is there already would fill nothing.
    if (attempt.HasRoom()) return AlreadyThere();
    const Offers offers = remaps ? OffersFor(attempt) : Offers();
    const StitchRequest request{attempt.size, offers,   attempt.largest_new, attempt.saves_pages, costs_,
                                options_,     may_unmap};
    std::optional<StitchPlan> plan = planner(attempt.arena, request);
    if (questions.Ask()) continue;
    attempt.on_offer = offers.pages();
    if (plan.has_value()) {
      attempt.plan = *std::move(plan);
      return absl::OkStatus();
    }
    // A range is for good, and what was asked a moment ago may have passed.
    if (!asked_again && questions.Forget()) {
      asked_again = true;
      continue;
    }
    made_places = !made_places && views_.MakePlaces(attempt.arena);
    if (made_places) {
      questions.Forget();
    } else {
      absl::Status added = AddExtent(attempt.arena, RoomApart(request)).status();
      if (!added.ok()) return added;
    }
  }
}

absl::Status MovableBacking::Commit(Attempt& attempt) {
  StitchPlan& plan = attempt.plan;
  const std::vector<Attempt::LastUse> last_uses = attempt.LastUsesOfDonors();
  StitchClaims claims(attempt.arena, plan);
  absl::Status status = OrderAfter(last_uses, attempt);
  if (status.ok()) status = MakeTarget(attempt);
  if (!status.ok()) {
    claims.Undo();
    plan.promised.Cancel();
    return absl::IsAborted(status) ? MakeRoomForMappings(status) : status;
  }
  attempt.arena.past_stitches().Add(plan.size, plan.target);
  EnterStitch(attempt, claims);
  return absl::OkStatus();
}

absl::Status MovableBacking::MakeTarget(Attempt& attempt) {
  std::vector<Handle*> created;
  absl::Status status = Create(attempt.plan.pieces, attempt.arena.group(), attempt.plan.promised, created);
  if (status.ok()) status = MapTarget(attempt.plan);
  if (status.ok()) return status;
  for (Handle* handle : created) status.Update(handles_.Release(handle));
  return status;
}

absl::Status MovableBacking::MakeRoomForMappings(const absl::Status& failure) {
  views_.MakeRoomForMappings();
  return absl::InternalError(failure.message());
}

absl::Status MovableBacking::OrderAfter(absl::Span<const Attempt::LastUse> last_uses, const Attempt& attempt) {
  for (const auto& [donor, last_use] : last_uses) {
    absl::StatusOr<bool> passed = donor->HasPassed(last_use);
    if (!passed.ok()) return passed.status();
    if (*passed) continue;
    absl::Status status = donor->MakeWait(attempt.arena.clock().stream(), last_use);
    if (status.ok()) ++ledger_.statistics().num_stream_waits;
    if (absl::IsUnavailable(status) && attempt.wait_policy == WaitPolicy::kWithHostWaits) {
      status = donor->Synchronize(last_use);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status MovableBacking::Create(std::vector<Piece>& pieces, SizeGroup group, Reservation& promised,
                                    std::vector<Handle*>& created) {
  for (Piece& piece : pieces) {
    if (piece.handle != nullptr) continue;
    absl::StatusOr<Handle*> handle = handles_.Create(piece.pages, group, promised);
    if (!handle.ok()) return handle.status();
    piece.handle = *handle;
    created.push_back(*handle);
  }
  return absl::OkStatus();
}

absl::Status MovableBacking::MapTarget(const StitchPlan& plan) {
  std::vector<PageRun> mapped;
  int64_t page = plan.target.first;
  for (size_t i = 0; i < plan.pieces.size();) {
    // The pieces from here on that cannot be seen in place.
    size_t end = i;
    PageRun run{plan.target.extent, page, 0};
    for (; end < plan.pieces.size(); ++end) {
      if (IsSeenAt(*plan.pieces[end].handle, {run.extent, run.end()})) break;
      run.count += plan.pieces[end].pages;
    }
    if (run.count > 0) {
      absl::Status status = MapPieces(absl::MakeConstSpan(plan.pieces).subspan(i, end - i), run);
      if (!status.ok()) {
        // Nothing has used the new views yet, so they can go without waiting for anything.
        for (const PageRun& done : mapped) status.Update(handles_.UnmapRun(done));
        return status;
      }
      mapped.push_back(run);
    }
    page = run.end() + (end < plan.pieces.size() ? plan.pieces[end].pages : 0);
    i = end + 1;
  }
  return absl::OkStatus();
}

absl::Status MovableBacking::MapPieces(absl::Span<const Piece> pieces, PageRun run) {
  absl::Status status = handles_.UnmapRun(run);
  PageRun mapped{run.extent, run.first, 0};
  for (const Piece& piece : pieces) {
    if (!status.ok()) break;
    status = handles_.MapAt(piece.handle, PageRef{run.extent, mapped.end()});
    if (status.ok()) mapped.count += piece.pages;
  }
  if (status.ok()) status = handles_.OpenRun(run);
  if (!status.ok() && mapped.count > 0) status.Update(handles_.UnmapRun(mapped));
  return status;
}

void MovableBacking::EnterStitch(Attempt& attempt, StitchClaims& claims) {
  const StitchPlan& plan = attempt.plan;
  // Small blocks come and go too often for their pages to follow.
  const bool settles = options_.homes == 0 || plan.to_create > Pages(0) || attempt.arena.group() == SizeGroup::kSmall;
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
  ++ledger_.statistics().num_stitches;
  ledger_.statistics().num_stitched_pages += plan.target.count - plan.to_create.count();
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
