#include "allocator/backing/stitch_planner.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "allocator/stitching/offers.h"
#include "allocator/stitching/unusable.h"

namespace frugal {
namespace {

absl::Status AlreadyThere() { return absl::AlreadyExistsError("there is a free block that is large enough"); }

}  // namespace

absl::Status StitchPlanner::Plan(Attempt& attempt) {
  absl::Status status = PlanAgain(attempt);
  if (!absl::IsNotFound(status)) return status;
  // Before anything is planned, since others go on meanwhile.
  attempt.device = memory_limit_.Ask();
  status = ChoosePlan(attempt);
  attempt.can_do_without_new = settings_.remaps && attempt.plan.donations.empty();
  return status;
}

absl::Status StitchPlanner::PlanWithoutNew(Attempt& attempt) {
  attempt.can_do_without_new = false;
  attempt.device = memory_limit_.Ask();
  attempt.largest_new = Pages(1);
  attempt.saves_pages = true;
  return PlanRemapping(attempt);
}

absl::Status StitchPlanner::PlanAgain(Attempt& attempt) {
  std::optional<StitchPlan> plan;
  const bool has_room = attempt.questions.Choose([&] {
    if (attempt.HasRoom()) return true;
    if (settings_.remaps && settings_.options.past_stitches > 0) {
      plan = PlanStitchAgain(attempt.arena, attempt.size, attempt.OffersFrom(arenas_.mapped()));
    }
    return false;
  });
  if (has_room) return AlreadyThere();
  if (!plan.has_value()) return absl::NotFoundError("not as before");
  attempt.plan = *std::move(plan);
  return absl::OkStatus();
}

absl::Status StitchPlanner::ChoosePlan(Attempt& attempt) {
  if (!settings_.remaps) return PlanInPlace(attempt);
  ledger_.failures().Absorb(attempt.device.status());
  if (!attempt.device.ok()) return PlanRemapping(attempt);
  const Bytes left = memory_limit_.Left(*attempt.device);
  attempt.largest_new = LargestPiece(attempt.size, left);
  attempt.saves_pages = left < handles_.held().bytes();
  if (left * settings_.options.borrow_part < handles_.held().bytes() && HasPieceFor(attempt)) return AlreadyThere();
  // Any growth takes a page at least.
  if (IsWorthGrowing(kPageSize, attempt.size, left)) {
    absl::Status status = PlanBy(&PlanStitch, attempt, /*remaps=*/false);
    if (!status.ok()) return status;
    if (IsWorthGrowing(attempt.plan.to_create.bytes(), attempt.size, left)) {
      status = Allow(attempt);
      // Others may have taken of the limit meanwhile.
      if (!absl::IsResourceExhausted(status)) return status;
    }
  }
  return PlanRemapping(attempt);
}

bool StitchPlanner::HasPieceFor(const Attempt& attempt) const {
  const Arena* const other = arenas_.WithRoom(attempt.arena, attempt.size);
  if (other == nullptr) return false;
  const Block& block = *other->free_blocks().BestFit(attempt.size);
  return UnusablePart(block) + KeptPart(block) == block.size;
}

absl::Status StitchPlanner::PlanRemapping(Attempt& attempt) {
  absl::Status status = PlanWithOffers(attempt);
  if (!absl::IsResourceExhausted(status) || handles_.spares().empty()) return status;
  // A spare of another size stands for none of the pieces, but keeps memory that they could be made of.
  ledger_.failures().Absorb(returns_.ReturnSpares().status());
  attempt.device = memory_limit_.Ask();
  return PlanWithOffers(attempt);
}

absl::Status StitchPlanner::PlanWithOffers(Attempt& attempt) {
  absl::Status status = PlanBy(&PlanStitch, attempt, /*remaps=*/true);
  if (!status.ok()) return status;
  status = Allow(attempt);
  if (absl::IsResourceExhausted(status) && attempt.plan.to_create + attempt.on_offer > PagesCovering(attempt.size)) {
    // The place joins free memory, whose pages it cannot take as well. One apart can take all.
    status = PlanBy(&PlanStitchApart, attempt, /*remaps=*/true);
    if (status.ok()) status = Allow(attempt);
  }
  return status;
}

absl::Status StitchPlanner::PlanInPlace(Attempt& attempt) {
  absl::Status status = PlanBy(&PlanStitch, attempt, /*remaps=*/false);
  if (!status.ok()) return status;
  status = Allow(attempt);
  if (absl::IsResourceExhausted(status) && attempt.wait_policy == WaitPolicy::kWithHostWaits) {
    // As with PyTorch's own allocator: what is free elsewhere goes back to the device before memory is out.
    status = returns_.ReturnFree(attempt.plan.to_create.bytes(), std::nullopt).status();
    if (!status.ok()) return status;
    attempt.device = memory_limit_.Ask();
    // Pages beside the place may be among those that went.
    status = PlanBy(&PlanStitch, attempt, /*remaps=*/false);
    if (status.ok()) status = Allow(attempt);
  }
  return status;
}

Pages StitchPlanner::LargestPiece(Bytes size, Bytes left) const {
  const int64_t most = std::min(PagesCovering(left).count() / settings_.options.piece_part,
                                PagesCovering(size).count() / settings_.options.request_part);
  const int64_t pages = std::clamp<int64_t>(most, 1, settings_.options.largest_piece);
  return Pages(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(pages))));
}

bool StitchPlanner::IsWorthGrowing(Bytes more, Bytes size, Bytes left) const {
  if (more > left) return false;
  const Counter& active = ledger_.statistics().active_bytes()[SizeGroup::kAll];
  const int64_t most = std::max({settings_.most_in_use.count(), active.peak, active.current + size.count()});
  const int64_t beyond = ledger_.statistics().reserved_bytes[SizeGroup::kAll].current + more.count() - most;
  const int64_t of_use =
      std::max(most / settings_.options.use_part, Pages(settings_.options.largest_piece).bytes().count());
  return beyond <= std::min((left - more).count() / settings_.options.waste_part, of_use);
}

absl::Status StitchPlanner::PlanBy(Planner* planner, Attempt& attempt, bool remaps) {
  StreamQuestions& questions = attempt.questions;
  const auto may_unmap = [&questions](PageRef page) { return PageReturns::HasLeft(page, questions); };
  bool asked_again = false;
  for (bool made_places = false;;) {
    // Others may have gone on since the last look, and a plan for what is there already would fill nothing.
    if (attempt.HasRoom()) return AlreadyThere();
    const Offers offers = remaps ? attempt.OffersFrom(arenas_.mapped()) : Offers();
    const StitchRequest request{attempt.size,      offers,   attempt.largest_new, attempt.saves_pages, settings_.costs,
                                settings_.options, may_unmap};
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
      absl::Status added = ranges_.Add(attempt.arena, RoomApart(request));
      if (!added.ok()) return added;
    }
  }
}

absl::Status StitchPlanner::Allow(Attempt& attempt) {
  const Pages more = handles_.LackingFor(attempt.plan.pieces);
  if (more == Pages(0)) return absl::OkStatus();
  if (!attempt.device.ok()) return attempt.device.status();
  const Bytes left = attempt.wait_policy >= WaitPolicy::kIntoReserve ? Bytes(0) : memory_limit_.reserve();
  absl::StatusOr<Reservation> promised = memory_limit_.Reserve(*attempt.device, more.bytes(), left);
  if (!promised.ok()) return promised.status();
  attempt.plan.promised = *std::move(promised);
  return absl::OkStatus();
}

}  // namespace frugal
