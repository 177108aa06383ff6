#include "allocator/stitching/stitch_claims.h"

#include <iterator>

#include "allocator/port/check.h"

namespace frugal {

StitchClaims::StitchClaims(Arena& arena, const StitchPlan& plan) : arena_(arena), filled_(*plan.target.extent) {
  filled_.pages().BeginFilling(plan.target.first, plan.target.count);
  // In the plan's order: of a block's pages those at the highest address come first, so that the block stays at the
  // others.
  for (const Donation& donation : plan.donations) {
    donations_.push_back(donation.block->extent->arena().Claim(donation.block, donation.run));
  }
  const Address start = plan.target.address();
  const Address end = start + plan.target.size();
  const auto after = arena_.holes().upper_bound(start);
  FRUGAL_CHECK(after != arena_.holes().begin());
  const Block& hole = *std::prev(after)->second;
  Block* const before = hole.address == start ? hole.previous : nullptr;
  Block* const behind = hole.end() == end ? hole.next : nullptr;
  for (Block* edge : {before, behind}) {
    if (edge != nullptr && edge->IsFree()) edges_.push_back(arena_.Claim(edge));
  }
}

void StitchClaims::Vacate() {
  for (Block* donation : donations_) donation->extent->arena().Vacate(donation);
  LetGo(edges_);
  filled_.pages().EndFilling();
}

void StitchClaims::Undo() {
  LetGo(donations_);
  LetGo(edges_);
  filled_.pages().EndFilling();
}

void StitchClaims::LetGo(const absl::InlinedVector<Block*, 2>& blocks) {
  for (Block* block : blocks) block->extent->arena().Unclaim(block);
}

}  // namespace frugal
