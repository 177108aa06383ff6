#include "allocator/backing/attempt.h"

#include <algorithm>

namespace frugal {

bool Attempt::MayTake(const Block& block) {
  const Arena& from = block.extent->arena();
  StreamClock& owner = from.clock();
  const StreamClock::Tick last_use = owner.Expand(block.last_use);
  // A replay, on whatever stream, comes after nothing that was put into this one.
  if (arena.kind() == MemoryKind::kFixed) return &from == &arena || questions.HasPassed(owner, last_use);
  if (&owner == &arena.clock()) return true;
  // Work of a stream that is being captured, or whose events fail, cannot be waited for.
  return wait_policy >= WaitPolicy::kThroughStreamWaits && !owner.fails() ? questions.IsEnded(owner, last_use)
                                                                          : questions.HasPassed(owner, last_use);
}

Offers Attempt::OffersFrom(const std::vector<Arena*>& arenas) {
  return Offers(arenas, [this](const Block& block) { return MayTake(block); });
}

std::vector<Attempt::LastUse> Attempt::LastUsesOfDonors() const {
  std::vector<LastUse> last_uses;
  for (const Donation& donation : plan.donations) {
    StreamClock& donor = donation.run.extent->arena().clock();
    if (&donor == &arena.clock()) continue;
    const StreamClock::Tick tick = donor.Expand(donation.block->last_use);
    const auto known =
        std::find_if(last_uses.begin(), last_uses.end(), [&](const LastUse& use) { return use.donor == &donor; });
    if (known == last_uses.end()) {
      last_uses.push_back({&donor, tick});
    } else {
      known->tick = std::max(known->tick, tick);
    }
  }
  return last_uses;
}

absl::Status Attempt::OrderAfter(absl::Span<const LastUse> last_uses, Ledger& ledger) const {
  for (const auto& [donor, last_use] : last_uses) {
    absl::StatusOr<bool> passed = donor->HasPassed(last_use);
    if (!passed.ok()) return passed.status();
    if (*passed) continue;
    absl::Status status = donor->MakeWait(arena.clock().stream(), last_use);
    if (status.ok()) ledger.StreamWaited();
    if (absl::IsUnavailable(status) && wait_policy == WaitPolicy::kWithHostWaits) {
      status = donor->Synchronize(last_use);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace frugal
