#include "allocator/block_returns.h"

#include "absl/container/inlined_vector.h"

namespace frugal {

void BlockReturns::Defer(Block* block, absl::Span<const Stream> others) {
  block->Apply(BlockStep::kDefer);
  ledger_.Deferred(*block, block->extent->arena().group());
  block->has_other_streams = false;
  absl::InlinedVector<StreamClock*, 2> clocks;
  for (Stream stream : others) {
    if (StreamClock* const clock = clocks_.Find(stream); clock != nullptr) clocks.push_back(clock);
  }
  // All of them have ended, and their work is done.
  if (clocks.empty()) return Passed(block);
  // A stream that could not be marked is marked later.
  ledger_.failures().Absorb(awaiting_.Add(block, clocks));
}

Bytes BlockReturns::Awaiting() const {
  const Statistics& statistics = ledger_.statistics();
  return Bytes(statistics.active_bytes()[SizeGroup::kAll].current -
               statistics.allocated_bytes[SizeGroup::kAll].current);
}

absl::Status BlockReturns::Poll() {
  return awaiting_.Poll([this](Block* block) { Passed(block); });
}

absl::Status BlockReturns::PollBehindWaitsOf(Stream stream) {
  return awaiting_.MakeOwnerWait(stream, ledger_.statistics().num_stream_waits,
                                 [this](Block* block) { Passed(block); });
}

absl::Status BlockReturns::WaitForAllWork() {
  const auto passed = [this](Block* block) { Passed(block); };
  ++ledger_.statistics().num_sync_all_streams;
  if (clocks_.WaitForAll()) {
    awaiting_.Settle(passed);
    return absl::OkStatus();
  }
  return awaiting_.Synchronize(passed);
}

}  // namespace frugal
