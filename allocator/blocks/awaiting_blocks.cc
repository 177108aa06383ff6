#include "allocator/blocks/awaiting_blocks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "allocator/blocks/arena.h"

namespace frugal {

absl::Status AwaitingBlocks::Add(Block* block, absl::Span<StreamClock* const> streams,
                                 std::vector<CapturePoint> points) {
  block->awaited_streams = 0;
  if (!points.empty()) captured_.push_back({block, std::move(points)});
  for (StreamClock* clock : streams) {
    Queue& queue = by_stream_[clock->stream()];
    queue.clock = clock;
    queue.uses.push_back({clock->now(), block});
    ++block->awaited_streams;
  }
  absl::Status status;
  for (StreamClock* clock : streams) {
    const absl::Status marked = clock->Mark();
    if (!absl::IsUnavailable(marked) && !absl::IsNotFound(marked)) status.Update(marked);
  }
  return status;
}

absl::Status AwaitingBlocks::Poll(Ready ready) {
  absl::Status status;
  for (Stream stream : Streams()) {
    const Queue* const queue = Find(stream);
    if (queue == nullptr || (queue->failures >= kMostFailures && queue->clock->fails())) continue;
    status.Update(Drain(
        stream, [](StreamClock& clock, Tick tick) { return clock.HasPassed(tick); }, ready));
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
  for (Stream stream : Streams()) status.Update(Drain(stream, wait, ready));
  EraseEmptyQueues();
  return status;
}

void AwaitingBlocks::TakePassed(Ready ready) {
  for (auto& [stream, queue] : by_stream_) TakePassed(queue, ready);
  EraseEmptyQueues();
}

absl::Status AwaitingBlocks::MakeOwnerWait(Stream owner, Ledger& ledger, Ready ready) {
  absl::Status failed;
  for (Stream stream : Streams()) {
    Queue* queue = Find(stream);
    if (queue == nullptr) continue;
    StreamClock& clock = *queue->clock;
    const auto is_owners = [owner](const Use& use) { return OwnerStream(*use.block) == owner; };
    // The last tick of a stream covers all before it.
    const auto last = std::find_if(queue->uses.rbegin(), queue->uses.rend(),
                                   [&](const Use& use) { return clock.IsEnded(use.tick) && is_owners(use); });
    if (last == queue->uses.rend()) continue;
    const Tick covered = last->tick;
    const absl::Status status = clock.MakeWait(owner, covered);
    // An owner that is being captured can wait for nobody, which is no error.
    if (absl::IsUnavailable(status)) break;
    failed.Update(status);
    if (!status.ok()) continue;
    ledger.StreamWaited();
    queue = Find(stream);
    if (queue == nullptr) continue;
    std::vector<Block*> passed;
    std::erase_if(queue->uses, [&](const Use& use) {
      if (use.tick > covered || !is_owners(use)) return false;
      passed.push_back(use.block);
      return true;
    });
    for (Block* block : passed) Passed(block, ready);
  }
  EraseEmptyQueues();
  return failed;
}

void AwaitingBlocks::PollWithinCapture(StreamClock& owner, Ready ready) {
  const auto is_owners = [&owner](const Captured& captured) { return OwnerStream(*captured.block) == owner.stream(); };
  std::vector<CapturePoint> points;
  for (const Captured& captured : captured_) {
    if (is_owners(captured)) points.insert(points.end(), captured.points.begin(), captured.points.end());
  }
  if (points.empty()) return;
  std::vector<CapturePoint> behind = owner.BehindInCapture(points);
  std::sort(behind.begin(), behind.end());
  const auto is_behind = [&behind](CapturePoint point) {
    return std::binary_search(behind.begin(), behind.end(), point);
  };
  // Those that were asked about may have passed meanwhile. What is behind stays so, also for blocks that came since.
  std::vector<Block*> passed;
  for (const Captured& captured : captured_) {
    const bool is_passed =
        is_owners(captured) && std::all_of(captured.points.begin(), captured.points.end(), is_behind);
    if (is_passed) passed.push_back(captured.block);
  }
  for (Block* block : passed) {
    for (auto& [stream, queue] : by_stream_) {
      std::erase_if(queue.uses, [block](const Use& use) { return use.block == block; });
    }
    block->awaited_streams = 0;
    ForgetPoints(block);
    ready(block);
  }
  EraseEmptyQueues();
}

void AwaitingBlocks::Passed(Block* block, Ready ready) {
  if (--block->awaited_streams > 0) return;
  ForgetPoints(block);
  ready(block);
}

void AwaitingBlocks::ForgetPoints(const Block* block) {
  std::erase_if(captured_, [block](const Captured& captured) { return captured.block == block; });
}

std::vector<Stream> AwaitingBlocks::Streams() const {
  std::vector<Stream> streams;
  for (const auto& [stream, queue] : by_stream_) streams.push_back(stream);
  return streams;
}

AwaitingBlocks::Queue* AwaitingBlocks::Find(Stream stream) {
  const auto queue = by_stream_.find(stream);
  return queue == by_stream_.end() ? nullptr : &queue->second;
}

absl::Status AwaitingBlocks::Drain(Stream stream, Question has_passed, Ready ready) {
  while (Queue* queue = Find(stream)) {
    TakePassed(*queue, ready);
    if (queue->uses.empty()) break;
    const absl::StatusOr<bool> passed = has_passed(*queue->clock, queue->uses.front().tick);
    queue = Find(stream);
    if (queue != nullptr) queue->failures = passed.ok() ? 0 : queue->failures + 1;
    if (!passed.ok()) return passed.status();
    if (!*passed) break;
  }
  return absl::OkStatus();
}

void AwaitingBlocks::TakePassed(Queue& queue, Ready ready) {
  while (!queue.uses.empty() && queue.clock->IsPassed(queue.uses.front().tick)) {
    Block* const block = queue.uses.front().block;
    queue.uses.pop_front();
    Passed(block, ready);
  }
}

void AwaitingBlocks::EraseEmptyQueues() {
  absl::erase_if(by_stream_, [](const auto& entry) { return entry.second.uses.empty(); });
}

}  // namespace frugal
