// How blocks that were handed out come back.

#pragma once

#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "allocator/backing/backing.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/awaiting_blocks.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/kept_pools.h"
#include "allocator/port/device.h"
#include "allocator/port/units.h"

namespace frugal {

// A block is free at once if only its arena's stream used it, else when the other streams have passed. Not thread-safe.
// What asks the device, or waits, lets go of the accounting lock meanwhile.
class BlockReturns {
 public:
  // All must outlive this.
  BlockReturns(Ledger& ledger, StreamClocks& clocks, Backing& backing, KeptPools& pools)
      : ledger_(ledger), clocks_(clocks), backing_(backing), pools_(pools) {}

  // The arena's block is free: kReturn by its caller, kPass when the last stream has passed. Returns whether
  // SendGuestsHome has something to do.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool PutBack(Arena& arena, Block* block, BlockStep step) {
    ledger_.Completed(*block);
    const Address start = block->address;
    const Address end = block->end();
    Block* const free = arena.PutBack(block, step);
    return free->extent->pages().guests() > 0 && BecameFreeAmongGuests(free, start, end);
  }
  // Asks whether the streams of blocks that were put back have passed, where handles of others could go home then.
  void SendGuestsHome();
  // The block was given back, and `others`, at least one, used it. It may be free by the time this returns.
  void Defer(Block* block, absl::Span<const Stream> others);

  // Whether blocks still wait for a stream.
  bool awaits() const { return !awaiting_.empty(); }
  // And no thread is asking about all of them at this moment: one that finds a free block need not do so, too.
  bool needs_poll() const { return awaits() && polls_ == 0; }
  // Whether PollWithinCapture has something to ask: one load.
  bool awaits_in_capture() const { return awaiting_.has_captured(); }
  // What they are.
  Bytes Awaiting() const;

  // Those of streams that have passed by now are free.
  absl::Status Poll();
  // Those that `stream` owns are free, behind waits of it for the others.
  absl::Status PollBehindWaitsOf(Stream stream);
  // Those that `stream` owns are free whose uses, within its capture, come before all that it is told from now on.
  void PollWithinCapture(Stream stream);
  // Whether there are pools that only WaitForAllWork lets go of.
  bool awaits_host() const { return pools_.HasReleased(KeptPools::Which::kAll); }
  // The host waits, as far as it may while a stream is captured; `pools` that were released are let go of. A failure
  // says why blocks still wait.
  absl::Status WaitForAllWork(KeptPools::Which pools, const OnlyPool& only = std::nullopt);

 private:
  // What became free with handles in it that have their home with other streams.
  struct Host {
    Extent* extent;
    Address start;
    Address end;
    StreamClock::Tick last_use;
  };

  // What all streams of the block, its owner among them, have been told within a capture; empty: it is not known.
  std::vector<CapturePoint> PointsInCapture(const Block& block, absl::Span<StreamClock* const> others);
  bool BecameFreeAmongGuests(Block* free, Address start, Address end);
  void Passed(Block* block) { PutBack(block->extent->arena(), block, BlockStep::kPass); }

  Ledger& ledger_;
  StreamClocks& clocks_;
  Backing& backing_;
  KeptPools& pools_;
  AwaitingBlocks awaiting_;
  std::vector<Host> hosts_;
  int polls_ = 0;  // that are under way
};

}  // namespace frugal
