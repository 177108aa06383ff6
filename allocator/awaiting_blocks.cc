#include "allocator/awaiting_blocks.h"

#include <utility>
#include <vector>

#include "allocator/arena.h"

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
    by_stream_[stream].push_back(std::move(use));
    ++block->awaited_streams;
  }
  return status;
}

absl::Status AwaitingBlocks::Poll(Ready ready) {
  return DrainAll([](Fence& fence) { return fence.HasPassed(); }, ready);
}

absl::Status AwaitingBlocks::Synchronize(Ready ready) {
  return DrainAll(
      [](Fence& fence) -> absl::StatusOr<bool> {
        absl::Status status = fence.Synchronize();
        if (!status.ok()) return status;
        return true;
      },
      ready);
}

absl::Status AwaitingBlocks::MakeOwnerWait(Stream owner, int64_t& waits, Ready ready) {
  absl::Status status;
  for (auto& [stream, queue] : by_stream_) {
    // The last fence of a stream covers all before it.
    Fence* last = nullptr;
    for (Use& use : queue) {
      if (use.fence != nullptr && use.block->extent->arena().stream() == owner) last = use.fence.get();
    }
    if (last == nullptr) continue;
    status = last->MakeWait(owner);
    if (!status.ok()) break;
    ++waits;
    std::vector<Block*> passed;
    std::erase_if(queue, [&](const Use& use) {
      const bool covered = use.fence != nullptr && use.block->extent->arena().stream() == owner;
      if (covered) passed.push_back(use.block);
      return covered;
    });
    for (Block* block : passed) Passed(block, ready);
  }
  EraseEmptyQueues();
  // An owner that is being captured can wait for nobody, which is no error.
  return absl::IsUnavailable(status) ? absl::OkStatus() : status;
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
  while (!queue.empty()) {
    Use& use = queue.front();
    if (use.fence == nullptr) {
      absl::Status marked = Mark(stream, use);
      if (!marked.ok()) return marked;
      if (use.fence == nullptr) return absl::OkStatus();
      // What comes now covers the others as well: a mark for each, once the one before has passed, would have every
      // block wait for work that came after it.
      for (Use& other : queue) {
        if (other.fence == nullptr) other.fence = use.fence;
      }
    }
    absl::StatusOr<bool> passed = has_passed(*use.fence);
    if (!passed.ok()) return passed.status();
    if (!*passed) return absl::OkStatus();
    Block* block = use.block;
    queue.pop_front();
    Passed(block, ready);
  }
  return absl::OkStatus();
}

absl::Status AwaitingBlocks::DrainAll(absl::FunctionRef<absl::StatusOr<bool>(Fence&)> has_passed, Ready ready) {
  absl::Status status;
  for (auto& [stream, queue] : by_stream_) status.Update(Drain(stream, queue, has_passed, ready));
  EraseEmptyQueues();
  return status;
}

void AwaitingBlocks::EraseEmptyQueues() {
  absl::erase_if(by_stream_, [](const auto& entry) { return entry.second.empty(); });
}

}  // namespace frugal
