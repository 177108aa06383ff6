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
// have to be refilled, which needs an unmap each. Small blocks never need much.
Bytes ExtentSize(SizeGroup group, Bytes device_total, Bytes request) {
  const Bytes usual = group == SizeGroup::kSmall ? Bytes(device_total.count() / 2) : device_total * 2;
  return RoundUp(std::max(usual, request), kPageSize);
}

// REQUIRES: the extent contains [start, end).
bool IsHandedOut(const Extent& extent, Address start, Address end) {
  for (const Block* block = extent.BlockAt(start); block != nullptr && block->address < end; block = block->next) {
    if (block->state != BlockState::kAllocated) return false;
  }
  return true;
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
  for (Arena* arena : arenas_.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      directory_.Erase(extent->start());
      status.Update(device_.Unreserve(extent->start(), extent->size()));
    }
  }
  FRUGAL_CHECK(status.ok());
}

absl::Status MovableBacking::Extend(Arena& arena, Bytes size, WaitPolicy wait_policy) {
  if (absl::Status fits = CheckDeviceHolds(size); !fits.ok()) return fits;
  absl::Status status = ExtendWithin(arena, size, wait_policy);
  // The arena's stream is being captured, so it can wait for nobody.
  if (absl::IsUnavailable(status)) status = ExtendWithin(arena, size, WaitPolicy::kPassed);
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

absl::Status MovableBacking::ExtendWithin(Arena& arena, Bytes size, WaitPolicy wait_policy) {
  Growth growth{arena, size, wait_policy, StreamQuestions(clocks_, ledger_)};
  if (remaps_) guests_.Recall(arena, wait_policy, growth.questions);
  views_.Keep();
  absl::StatusOr<StitchPlan> plan = PlanAgain(growth);
  if (plan.ok()) return Commit(growth, *plan);
  if (!absl::IsNotFound(plan.status())) return plan.status();
  // Before anything is planned, since others go on meanwhile.
  const absl::StatusOr<MemoryInfo> device = memory_limit_.Ask();
  plan = ChoosePlan(growth, device);
  if (!plan.ok()) return plan.status();
  absl::Status status = Commit(growth, *plan);
  if (remaps_ && !status.ok() && plan->donations.empty()) {
    // What new memory is refused, for whatever reason, free memory may still serve.
    ledger_.failures().Absorb(status);
    plan = PlanRemapping(growth, {Pages(1), true}, memory_limit_.Ask());
    status = plan.ok() ? Commit(growth, *plan) : plan.status();
  }
  return status;
}

absl::StatusOr<StitchPlan> MovableBacking::PlanAgain(Growth& growth) {
  std::optional<StitchPlan> plan;
  do {
    if (HasRoom(growth)) return AlreadyThere();
    if (remaps_ && options_.past_stitches > 0) {
      plan = PlanStitchAgain(growth.arena, growth.size, OffersFor(growth));
    }
  } while (growth.questions.Ask());
  if (!plan.has_value()) return absl::NotFoundError("not as before");
  return *std::move(plan);
}

absl::StatusOr<StitchPlan> MovableBacking::ChoosePlan(Growth& growth, const absl::StatusOr<MemoryInfo>& device) {
  if (!remaps_) return PlanInPlace(growth, device);
  ledger_.failures().Absorb(device.status());
  if (!device.ok()) return PlanRemapping(growth, {Pages(1), true}, device);
  const Bytes left = memory_limit_.Left(*device);
  const NewMemory memory{LargestPiece(growth.size, left), /*is_short=*/left < handles_.held().bytes()};
  // Any growth takes a page at least.
  if (IsWorthGrowing(kPageSize, growth.size, left)) {
    absl::StatusOr<StitchPlan> plan = Plan(&PlanStitch, growth, /*remaps=*/false, memory);
    if (!plan.ok()) return plan;
    if (IsWorthGrowing(plan->to_create.bytes(), growth.size, left)) {
      absl::Status allowed = Allow(*plan, growth.wait_policy, device);
      // Others may have taken of the limit meanwhile.
      if (allowed.ok()) return plan;
      if (!absl::IsResourceExhausted(allowed)) return allowed;
    }
  }
  return PlanRemapping(growth, memory, device);
}

absl::StatusOr<StitchPlan> MovableBacking::PlanRemapping(Growth& growth, NewMemory memory,
                                                         const absl::StatusOr<MemoryInfo>& device) {
  absl::StatusOr<StitchPlan> plan = PlanWithOffers(growth, memory, device);
  if (!absl::IsResourceExhausted(plan.status()) || handles_.spares().empty()) return plan;
  // A spare of another size stands for none of the pieces, but keeps memory that they could be made of.
  ledger_.failures().Absorb(returns_.ReturnSpares().status());
  return PlanWithOffers(growth, memory, memory_limit_.Ask());
}

absl::StatusOr<StitchPlan> MovableBacking::PlanWithOffers(Growth& growth, NewMemory memory,
                                                          const absl::StatusOr<MemoryInfo>& device) {
  absl::StatusOr<StitchPlan> plan = Plan(&PlanStitch, growth, /*remaps=*/true, memory);
  if (!plan.ok()) return plan;
  absl::Status allowed = Allow(*plan, growth.wait_policy, device);
  if (absl::IsResourceExhausted(allowed) && plan->to_create + growth.on_offer > PagesCovering(growth.size)) {
    // The place joins free memory, whose pages it cannot take as well. One apart can take all.
    plan = Plan(&PlanStitchApart, growth, /*remaps=*/true, memory);
    allowed = plan.ok() ? Allow(*plan, growth.wait_policy, device) : plan.status();
  }
  if (!allowed.ok()) return allowed;
  return plan;
}

absl::StatusOr<StitchPlan> MovableBacking::PlanInPlace(Growth& growth, const absl::StatusOr<MemoryInfo>& device) {
  absl::StatusOr<StitchPlan> plan = Plan(&PlanStitch, growth, /*remaps=*/false);
  if (!plan.ok()) return plan;
  absl::Status allowed = Allow(*plan, growth.wait_policy, device);
  if (absl::IsResourceExhausted(allowed) && growth.wait_policy == WaitPolicy::kWithHostWaits) {
    // As with PyTorch's own allocator: what is free elsewhere goes back to the device before memory is out.
    absl::StatusOr<Bytes> returned = returns_.ReturnFree(plan->to_create.bytes());
    if (!returned.ok()) return returned.status();
    const absl::StatusOr<MemoryInfo> now = memory_limit_.Ask();
    // Pages beside the place may be among those that went.
    plan = Plan(&PlanStitch, growth, /*remaps=*/false);
    allowed = plan.ok() ? Allow(*plan, growth.wait_policy, now) : plan.status();
  }
  if (!allowed.ok()) return allowed;
  return plan;
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
  const int64_t beyond = handles_.held().bytes().count() + more.count() - most;
  const int64_t of_use = std::max(most / options_.use_part, Pages(options_.largest_piece).bytes().count());
  return beyond <= std::min((left - more).count() / options_.waste_part, of_use);
}

absl::Status MovableBacking::CheckDeviceHolds(Bytes size) {
  if (size <= handles_.held().bytes()) return absl::OkStatus();
  const absl::StatusOr<Bytes> total = memory_limit_.DeviceTotal();
  if (!total.ok()) return total.status();
  return size <= *total ? absl::OkStatus() : absl::ResourceExhaustedError("larger than the device");
}

absl::Status MovableBacking::Allow(StitchPlan& plan, WaitPolicy wait_policy, const absl::StatusOr<MemoryInfo>& device) {
  const Pages more = handles_.LackingFor(plan.pieces);
  if (more == Pages(0)) return absl::OkStatus();
  if (!device.ok()) return device.status();
  const Bytes left = wait_policy >= WaitPolicy::kIntoReserve ? Bytes(0) : memory_limit_.reserve();
  absl::StatusOr<Reservation> promised = memory_limit_.Reserve(*device, more.bytes(), left);
  if (!promised.ok()) return promised.status();
  plan.promised = *std::move(promised);
  return absl::OkStatus();
}

absl::StatusOr<Extent*> MovableBacking::AddExtent(Arena& arena, Bytes size) {
  const absl::StatusOr<Bytes> total = memory_limit_.DeviceTotal();
  if (!total.ok()) return total.status();
  const Bytes least = RoundUp(size, kPageSize);
  Bytes reserved = ExtentSize(arena.group(), *total, size);
  const auto reserve = [&] { return lock_.DuringDriverCall([&] { return device_.Reserve(reserved); }); };
  absl::StatusOr<Address> start = reserve();
  // Addresses can run out long before memory does: a range is twice the device, and each stream has up to five.
  while (!start.ok() && reserved > least) {
    ledger_.failures().Absorb(start.status());
    reserved = std::max(least, RoundDown(Bytes(reserved.count() / 2), kPageSize));
    start = reserve();
  }
  if (!start.ok()) return start.status();
  Extent& extent = arena.AddExtent(Extent::Kind::kMovable, *start, reserved);
  directory_.Insert(*start, reserved, owner_);
  return &extent;
}

Offers MovableBacking::OffersFor(Growth& growth) {
  return Offers(arenas_.all(), [&growth](const Block& block) { return MayTake(growth, block); });
}

bool MovableBacking::MayTake(Growth& growth, const Block& block) {
  StreamClock& owner = block.extent->arena().clock();
  if (&owner == &growth.arena.clock()) return true;
  const StreamClock::Tick last_use = owner.Expand(block.last_use);
  // Work of a stream that is being captured, or whose events fail, cannot be waited for.
  return growth.wait_policy >= WaitPolicy::kThroughStreamWaits && !owner.fails()
             ? growth.questions.IsEnded(owner, last_use)
             : growth.questions.HasPassed(owner, last_use);
}

absl::StatusOr<StitchPlan> MovableBacking::Plan(Planner* planner, Growth& growth, bool remaps, NewMemory memory) {
  const auto may_unmap = [&growth](PageRef page) { return PageReturns::HasLeft(page, growth.questions); };
  bool asked_again = false;
  for (bool made_places = false;;) {
    // Others may have gone on since the last look, and a plan for what is there already would fill nothing.
    if (HasRoom(growth)) return AlreadyThere();
    const Offers offers = remaps ? OffersFor(growth) : Offers();
    const StitchRequest request{growth.size, offers, memory.largest, memory.is_short, costs_, options_, may_unmap};
    std::optional<StitchPlan> plan = planner(growth.arena, request);
    if (growth.questions.Ask()) continue;
    growth.on_offer = offers.pages();
    if (plan.has_value()) return *std::move(plan);
    // A range is for good, and what was asked a moment ago may have passed.
    if (!asked_again && growth.questions.Forget()) {
      asked_again = true;
      continue;
    }
    made_places = !made_places && views_.MakePlaces(growth.arena);
    if (made_places) {
      growth.questions.Forget();
    } else {
      absl::Status added = AddExtent(growth.arena, RoomApart(request)).status();
      if (!added.ok()) return added;
    }
  }
}

absl::Status MovableBacking::Commit(Growth& growth, StitchPlan& plan) {
  const LastUses last_uses = LastUsesOfDonors(growth.arena, plan);
  StitchClaims claims(growth.arena, plan);
  absl::Status status = OrderAfterDonors(growth.arena, last_uses, growth.wait_policy);
  if (status.ok()) status = MakeTarget(growth.arena, plan);
  if (!status.ok()) {
    claims.Undo();
    plan.promised.Cancel();
    return absl::IsAborted(status) ? MakeRoomForMappings(status) : status;
  }
  growth.arena.past_stitches().Add(plan.size, plan.target);
  EnterStitch(growth.arena, plan, claims);
  return absl::OkStatus();
}

absl::Status MovableBacking::MakeTarget(const Arena& arena, StitchPlan& plan) {
  absl::StatusOr<std::vector<Handle*>> created = Create(arena, plan);
  if (!created.ok()) return created.status();
  absl::Status status = MapTarget(plan);
  if (status.ok()) return status;
  for (Handle* handle : *created) status.Update(handles_.Release(handle));
  return status;
}

absl::Status MovableBacking::MakeRoomForMappings(const absl::Status& failure) {
  views_.MakeRoomForMappings();
  return absl::InternalError(failure.message());
}

MovableBacking::LastUses MovableBacking::LastUsesOfDonors(const Arena& arena, const StitchPlan& plan) {
  LastUses last_uses;
  for (const Donation& donation : plan.donations) {
    StreamClock& donor = donation.run.extent->arena().clock();
    if (&donor == &arena.clock()) continue;
    const StreamClock::Tick last_use = donor.Expand(donation.block->last_use);
    const auto known =
        std::find_if(last_uses.begin(), last_uses.end(), [&](const auto& use) { return use.first == &donor; });
    if (known == last_uses.end()) {
      last_uses.emplace_back(&donor, last_use);
    } else {
      known->second = std::max(known->second, last_use);
    }
  }
  return last_uses;
}

absl::Status MovableBacking::OrderAfterDonors(const Arena& arena, const LastUses& last_uses, WaitPolicy wait_policy) {
  for (const auto& [donor, last_use] : last_uses) {
    absl::StatusOr<bool> passed = donor->HasPassed(last_use);
    if (!passed.ok()) return passed.status();
    if (*passed) continue;
    absl::Status status = donor->MakeWait(arena.clock().stream(), last_use);
    if (status.ok()) ++ledger_.statistics().num_stream_waits;
    if (absl::IsUnavailable(status) && wait_policy == WaitPolicy::kWithHostWaits) status = donor->Synchronize(last_use);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Handle*>> MovableBacking::Create(const Arena& arena, StitchPlan& plan) {
  std::vector<Handle*> created;
  for (Piece& piece : plan.pieces) {
    if (piece.handle != nullptr) continue;
    absl::StatusOr<Handle*> handle = handles_.Create(piece.pages, arena.group(), plan.promised);
    if (!handle.ok()) {
      absl::Status status = handle.status();
      for (Handle* one : created) status.Update(handles_.Release(one));
      return status;
    }
    piece.handle = *handle;
    created.push_back(*handle);
  }
  return created;
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

void MovableBacking::EnterStitch(Arena& arena, const StitchPlan& plan, StitchClaims& claims) {
  const bool settles = Settles(arena, plan);
  int64_t page = plan.target.first;
  for (const Piece& piece : plan.pieces) {
    Handle* handle = piece.handle;
    handles_.Move(handle, PageRef{plan.target.extent, page});
    if (settles) handles_.Settle(handle);
    page += piece.pages;
  }
  claims.Vacate();
  arena.Fill(plan.target);
  if (plan.donations.empty()) return;
  if (!settles) guests_.MovedInto(plan.target);
  ++ledger_.statistics().num_stitches;
  ledger_.statistics().num_stitched_pages += plan.target.count - plan.to_create.count();
}

absl::Status MovableBacking::KeepInPlace(Address start, Bytes size, bool keep) {
  const absl::StatusOr<PageRun> run = LivePages(start, size);
  if (!run.ok()) return run.status();
  // Free memory may be let go of, since it stays when its block is given back.
  if (keep && !IsHandedOut(*run->extent, start, start + size))
    return absl::NotFoundError("the range is not all in use: keep a tensor's memory while the tensor lives");
  std::vector<Handle*> handles;
  for (int64_t page = run->first; page < run->end(); ++page) {
    Handle* const handle = run->extent->pages().view(page).handle;
    FRUGAL_CHECK(handle != nullptr);
    if (!keep && handle->keepers == 0) return absl::FailedPreconditionError("the memory was not kept in place");
    if (handles.empty() || handles.back() != handle) handles.push_back(handle);
  }
  for (Handle* handle : handles) {
    if (keep) handles_.Settle(handle);
    handle->keepers += keep ? 1 : -1;
    if (handle->keepers == (keep ? 1 : 0)) run->extent->pages().CountInPlace(keep ? 1 : -1);
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
  for (const Arena* arena : arenas_.all()) {
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      CheckUnusable(*extent);
    }
  }
  const Bytes reserved(ledger_.statistics().reserved_bytes[SizeGroup::kAll].current);
  FRUGAL_CHECK(reserved == handles_.held().bytes());
}

}  // namespace frugal
