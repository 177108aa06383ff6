#include "allocator/blocks/awaiting_blocks.h"

#include <utility>
#include <vector>

#include "allocator/blocks/arena.h"

namespace frugal {
namespace {

void Passed(Block* block, AwaitingBlocks::Ready ready) {
  if (--block->awaited_streams == 0) ready(block);
}

}  // namespace

absl::Status AwaitingBlocks::Add(Block* block, absl::Span<StreamClock* const> streams) {
  absl::Status status;
  block->awaited_streams = 0;
  for (StreamClock* clock : streams) {
    Queue& queue = by_stream_[clock->stream()];
    queue.clock = clock;
    queue.uses.push_back({clock->now(), block});
    ++block->awaited_streams;
    const absl::Status marked = clock->Mark();
    if (!absl::IsUnavailable(marked) && !absl::IsNotFound(marked)) status.Update(marked);
  }
  return status;
}

absl::Status AwaitingBlocks::Poll(Ready ready) {
  absl::Status status;
  for (auto& [stream, queue] : by_stream_) {
    if (queue.failures >= kMostFailures && queue.clock->fails()) continue;
    status.Update(Drain(
        queue, [](StreamClock& clock, Tick tick) { return clock.HasPassedOnceEnded(tick); }, ready));
  }
  EraseEmptyQueues();
  return status;
}

absl::Status AwaitingBlocks::Synchronize(Ready ready) {
  const auto wait = [](StreamClock& clock, Tick tick) -> absl::StatusOr<bool> {
    absl::Status status = clock.Synchronize(tick);
    if (absl::IsUnavailable(status)) return false;
    if (!status.ok()) return status;
    return true;
  };
  absl::Status status;
  for (auto& [stream, queue] : by_stream_) status.Update(Drain(queue, wait, ready));
  EraseEmptyQueues();
  return status;
}

void AwaitingBlocks::Settle(Ready ready) {
  for (auto& [stream, queue] : by_stream_) {
    for (const Use& use : std::exchange(queue.uses, {})) Passed(use.block, ready);
  }
  by_stream_.clear();
}

absl::Status AwaitingBlocks::MakeOwnerWait(Stream owner, int64_t& waits, Ready ready) {
  absl::Status failed;
  for (auto& [stream, queue] : by_stream_) {
    StreamClock& clock = *queue.clock;
    const auto is_covered = [&](const Use& use) { return use.tick < clock.now() && OwnerStream(*use.block) == owner; };
    // The last tick of a stream covers all before it.
    Tick last = 0;
    for (const Use& use : queue.uses) {
      if (is_covered(use)) last = use.tick;
    }
    if (last == 0) continue;
    const absl::Status status = clock.MakeWait(owner, last);
    // An owner that is being captured can wait for nobody, which is no error.
    if (absl::IsUnavailable(status)) break;
    failed.Update(status);
    if (!status.ok()) continue;
    ++waits;
    std::vector<Block*> passed;
    std::erase_if(queue.uses, [&](const Use& use) {
      if (!is_covered(use)) return false;
      passed.push_back(use.block);
      return true;
    });
    for (Block* block : passed) Passed(block, ready);
  }
  EraseEmptyQueues();
  return failed;
}

absl::Status AwaitingBlocks::Drain(Queue& queue, Question has_passed, Ready ready) {
  while (!queue.uses.empty()) {
    const Use use = queue.uses.front();
    const absl::StatusOr<bool> passed = has_passed(*queue.clock, use.tick);
    if (!passed.ok()) {
      ++queue.failures;
      return passed.status();
    }
    queue.failures = 0;
    if (!*passed) return absl::OkStatus();
    queue.uses.pop_front();
    Passed(use.block, ready);
  }
  return absl::OkStatus();
}

void AwaitingBlocks::EraseEmptyQueues() {
  absl::erase_if(by_stream_, [](const auto& entry) { return entry.second.uses.empty(); });
}

}  // namespace frugal
