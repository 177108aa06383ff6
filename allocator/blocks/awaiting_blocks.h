// Blocks that were given back while streams other than their arena's were still to use them.

#ifndef FRUGAL_ALLOCATOR_BLOCKS_AWAITING_BLOCKS_H_
#define FRUGAL_ALLOCATOR_BLOCKS_AWAITING_BLOCKS_H_

#include <deque>
#include <memory>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/fence.h"
#include "allocator/port/device.h"

namespace frugal {

// Not thread-safe. `ready(block)` is called once for a block, when the last of its streams has passed; on an error
// the blocks that were not reported stay. An error of one stream stops no other. A stream that the program may destroy
// is touched when the block is given back, as PyTorch's own allocator does, and never again: what could not be marked
// then waits until the host has waited for all work.
class AwaitingBlocks {
 public:
  using Ready = absl::FunctionRef<void(Block*)>;

  explicit AwaitingBlocks(Device& device) : device_(device) {}

  bool empty() const { return by_stream_.empty(); }

  // Waits from now on for `streams`, at least one. A stream that is being captured cannot be marked: it counts as not
  // passed until it can.
  absl::Status Add(Block* block, absl::Span<const Stream> streams);

  // Asks the device, once for each stream plus once for each block that turns out to be passed. A stream that has
  // failed twice in a row is asked no more before the host waits.
  absl::Status Poll(Ready ready);
  // The host waits for all. Blocks of streams that are being captured stay.
  absl::Status Synchronize(Ready ready);
  // The host has waited for all work of the device.
  void Settle(Ready ready);
  // `owner` waits, without the host, for all other streams that still use blocks of its own arenas. `waits`
  // is raised by the number of waits that were put into it. An owner that is being captured waits for none.
  absl::Status MakeOwnerWait(Stream owner, int64_t& waits, Ready ready);

 private:
  struct Use {
    std::shared_ptr<Fence> fence;  // null: could not be recorded yet
    Block* block;
  };
  struct Queue {
    std::deque<Use> uses;  // in the order of the stream's work
    int failures = 0;      // of the stream's calls, since the latest that succeeded
  };
  static constexpr int kMostFailures = 2;

  absl::Status Mark(Stream stream, Use& use);
  // Removes the uses at the front of the queue that `has_passed` says yes to.
  absl::Status Drain(Stream stream, Queue& queue, absl::FunctionRef<absl::StatusOr<bool>(Fence&)> has_passed,
                     Ready ready);
  static absl::Status Failed(Queue& queue, absl::Status status);
  void EraseEmptyQueues();

  Device& device_;
  // In order, so that the same work has the same outcome in each run: a hash map's order differs between processes.
  absl::btree_map<Stream, Queue> by_stream_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_AWAITING_BLOCKS_H_
