// Blocks that were given back while streams other than their arena's were still to use them.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/stream_clock.h"
#include "allocator/port/device.h"

namespace frugal {

// Not thread-safe. The device is asked without the accounting lock: others may add blocks then, and see some pass.
// `ready(block)` is called once for a block, when the last of its streams has passed; on an error the blocks that were
// not reported stay. An error of one stream stops no other. A stream that the program may destroy
// is marked when the block is given back, as PyTorch's own allocator does; where it could not be, the block waits until
// the stream is named again, or the host has waited for all work.
class AwaitingBlocks {
 public:
  using Ready = absl::FunctionRef<void(Block*)>;

  bool empty() const { return by_stream_.empty(); }
  // Whether PollWithinCapture has something to ask.
  bool has_captured() const { return !captured_.empty(); }

  // Waits from now on for what `streams`, at least one, were told so far. A stream that is being captured cannot be
  // marked: it counts as not passed until it can. The block may be ready by the time this returns. `points`, if any,
  // are what these streams and the block's owner had been told within one capture.
  absl::Status Add(Block* block, absl::Span<StreamClock* const> streams, std::vector<CapturePoint> points = {});

  // Asks the device, once for each stream plus once for each block that turns out to be passed. A stream that has
  // failed twice in a row is asked no more before a call for it succeeds, or the host waits.
  absl::Status Poll(Ready ready);
  // The host waits for all. Blocks of streams that are being captured stay.
  absl::Status Synchronize(Ready ready);
  // Asks nobody: those of which it is known that they have passed.
  void TakePassed(Ready ready);
  // `owner` waits, without the host, for all other streams that still use blocks of its own arenas, and
  // `ledger` counts the waits. An owner that is being captured waits for none.
  absl::Status MakeOwnerWait(Stream owner, Ledger& ledger, Ready ready);
  // Asks the device, once. Ready are blocks of arenas of `owner` that were given back within its capture, where what it
  // is told from now on comes after all their uses.
  void PollWithinCapture(StreamClock& owner, Ready ready);

 private:
  using Tick = StreamClock::Tick;
  using Question = absl::FunctionRef<absl::StatusOr<bool>(StreamClock&, Tick)>;
  struct Use {
    Tick tick;
    Block* block;
  };
  struct Queue {
    StreamClock* clock = nullptr;
    std::deque<Use> uses = {};  // in the order of the stream's work
    int failures = 0;           // of the stream's calls, since the latest that succeeded
  };
  struct Captured {
    Block* block;
    std::vector<CapturePoint> points;
  };
  static constexpr int kMostFailures = 2;

  // Those that blocks wait for now.
  std::vector<Stream> Streams() const;
  // null: no block waits for the stream.
  Queue* Find(Stream stream);
  // Removes the uses at the front of the stream's queue that `has_passed` says yes to.
  absl::Status Drain(Stream stream, Question has_passed, Ready ready);
  void TakePassed(Queue& queue, Ready ready);
  void Passed(Block* block, Ready ready);
  // The points of the block are not needed any more.
  void ForgetPoints(const Block* block);
  void EraseEmptyQueues();

  // In order, so that the same work has the same outcome in each run: a hash map's order differs between processes.
  absl::btree_map<Stream, Queue> by_stream_;
  // Of the blocks that wait, those with points, in the order in which they came.
  std::vector<Captured> captured_;
};

}  // namespace frugal
