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

absl::Status AwaitingBlocks::Add(Block* block, absl::Span<const Stream> streams) {
  absl::Status status;
  block->awaited_streams = 0;
  for (Stream stream : streams) {
    Use use{nullptr, block};
    status.Update(Mark(stream, use));
    by_stream_[stream].uses.push_back(std::move(use));
    ++block->awaited_streams;
  }
  return status;
}

absl::Status AwaitingBlocks::Poll(Ready ready) {
  absl::Status status;
  for (auto& [stream, queue] : by_stream_) {
    if (queue.failures >= kMostFailures) continue;
    status.Update(Drain(
        stream, queue, [](Fence& fence) { return fence.HasPassed(); }, ready));
  }
  EraseEmptyQueues();
  return status;
}

absl::Status AwaitingBlocks::Synchronize(Ready ready) {
  const auto wait = [](Fence& fence) -> absl::StatusOr<bool> {
    absl::Status status = fence.Synchronize();
    if (!status.ok()) return status;
    return true;
  };
  absl::Status status;
  for (auto& [stream, queue] : by_stream_) status.Update(Drain(stream, queue, wait, ready));
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
    // The last fence of a stream covers all before it.
    Fence* last = nullptr;
    for (Use& use : queue.uses) {
      if (use.fence != nullptr && OwnerStream(*use.block) == owner) last = use.fence.get();
    }
    if (last == nullptr) continue;
    const absl::Status status = last->MakeWait(owner);
    // An owner that is being captured can wait for nobody, which is no error.
    if (absl::IsUnavailable(status)) break;
    failed.Update(status);
    if (!status.ok()) continue;
    ++waits;
    std::vector<Block*> passed;
    std::erase_if(queue.uses, [&](const Use& use) {
      const bool covered = use.fence != nullptr && OwnerStream(*use.block) == owner;
      if (covered) passed.push_back(use.block);
      return covered;
    });
    for (Block* block : passed) Passed(block, ready);
  }
  EraseEmptyQueues();
  return failed;
}

absl::Status AwaitingBlocks::Mark(Stream stream, Use& use) {
  absl::StatusOr<std::shared_ptr<Fence>> fence = Fence::Record(device_, stream);
  if (absl::IsUnavailable(fence.status())) return absl::OkStatus();
  if (!fence.ok()) return fence.status();
  use.fence = *std::move(fence);
  return absl::OkStatus();
}

absl::Status AwaitingBlocks::Drain(Stream stream, Queue& queue,
                                   absl::FunctionRef<absl::StatusOr<bool>(Fence&)> has_passed, Ready ready) {
  while (!queue.uses.empty()) {
    Use& use = queue.uses.front();
    if (use.fence == nullptr) {
      if (stream.may_end) return absl::OkStatus();
      absl::Status marked = Mark(stream, use);
      if (!marked.ok()) return Failed(queue, std::move(marked));
      if (use.fence == nullptr) return absl::OkStatus();
      // What comes now covers the others as well: a mark for each, once the one before has passed, would have every
      // block wait for work that came after it.
      for (Use& other : queue.uses) {
        if (other.fence == nullptr) other.fence = use.fence;
      }
    }
    absl::StatusOr<bool> passed = has_passed(*use.fence);
    if (!passed.ok()) return Failed(queue, passed.status());
    queue.failures = 0;
    if (!*passed) return absl::OkStatus();
    Block* block = use.block;
    queue.uses.pop_front();
    Passed(block, ready);
  }
  return absl::OkStatus();
}

absl::Status AwaitingBlocks::Failed(Queue& queue, absl::Status status) {
  ++queue.failures;
  return status;
}

void AwaitingBlocks::EraseEmptyQueues() {
  absl::erase_if(by_stream_, [](const auto& entry) { return entry.second.uses.empty(); });
}

}  // namespace frugal
