#include "allocator/block_returns.h"

#include <utility>

#include "absl/container/inlined_vector.h"

namespace frugal {

void BlockReturns::Defer(Block* block, absl::Span<const Stream> others) {
  block->Apply(BlockStep::kDefer);
  ledger_.Deferred(*block);
  block->has_more = false;
  absl::InlinedVector<StreamClock*, 2> clocks;
  for (Stream stream : others) {
    if (StreamClock* const clock = clocks_.Find(stream); clock != nullptr) clocks.push_back(clock);
  }
  // All of them have ended, and their work is done.
  if (clocks.empty()) return Passed(block);
  // A stream that could not be marked is marked later.
  std::vector<CapturePoint> points = PointsInCapture(*block, clocks);
  ledger_.failures().Absorb(awaiting_.Add(block, clocks, std::move(points)));
}

std::vector<CapturePoint> BlockReturns::PointsInCapture(const Block& block, absl::Span<StreamClock* const> others) {
  std::vector<CapturePoint> points;
  Arena& arena = block.extent->arena();
  // What is captured gets memory of private pools alone, so no other is asked for anew within a capture.
  if (arena.pool().is_default()) return points;
  absl::InlinedVector<StreamClock*, 3> clocks(others.begin(), others.end());
  clocks.push_back(&arena.clock());
  for (StreamClock* clock : clocks) {
    const absl::StatusOr<std::vector<CapturePoint>> told = clock->MarkInCapture();
    if (!told.ok()) return {};
    points.insert(points.end(), told->begin(), told->end());
  }
  return points;
}

Bytes BlockReturns::Awaiting() const {
  const Statistics& statistics = ledger_.statistics();
  return Bytes(statistics.active_bytes()[SizeGroup::kAll].current -
               statistics.allocated_bytes[SizeGroup::kAll].current);
}

absl::Status BlockReturns::Poll() {
  ++polls_;
  absl::Status status = awaiting_.Poll([this](Block* block) { Passed(block); });
  --polls_;
  SendGuestsHome();
  return status;
}

absl::Status BlockReturns::PollBehindWaitsOf(Stream stream) {
  absl::Status status = awaiting_.MakeOwnerWait(stream, ledger_, [this](Block* block) { Passed(block); });
  SendGuestsHome();
  return status;
}

void BlockReturns::PollWithinCapture(Stream stream) {
  StreamClock* const clock = clocks_.Find(stream);
  if (clock == nullptr) return;
  awaiting_.PollWithinCapture(*clock, [this](Block* block) { Passed(block); });
  SendGuestsHome();
}

absl::Status BlockReturns::WaitForAllWork(KeptPools::Which pools, const OnlyPool& only) {
  const auto passed = [this](Block* block) { Passed(block); };
  absl::Status status = clocks_.WaitForAll();
  if (status.ok()) {
    awaiting_.TakePassed(passed);
    static_cast<void>(pools_.LetGo(pools, only));
  } else {
    // A capture that is known of is no error.
    if (absl::IsUnavailable(status)) status = absl::OkStatus();
    status.Update(awaiting_.Synchronize(passed));
  }
  SendGuestsHome();
  return status;
}

bool BlockReturns::BecameFreeAmongGuests(Block* free, Address start, Address end) {
  Extent& extent = *free->extent;
  // The block may be gone afterwards.
  if (!backing_.BecameFree(free, start, end)) return false;
  hosts_.push_back({&extent, start, end, extent.arena().clock().now()});
  return true;
}

void BlockReturns::SendGuestsHome() {
  for (const Host& host : std::exchange(hosts_, {})) {
    const absl::StatusOr<bool> passed = host.extent->arena().clock().HasPassed(host.last_use);
    // An error is no reason to fail: they can go later.
    ledger_.failures().Absorb(passed.status());
    if (passed.ok() && *passed) backing_.SendGuestsHome(*host.extent, host.start, host.end);
  }
}

}  // namespace frugal
