// How handles that were lent to another place go home.

#pragma once

#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "allocator/backing/attempt.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/stitching/handle_table.h"
#include "allocator/stitching/offers.h"

namespace frugal {

// A guest's home is mapped all the time, so going there takes no driver call and cannot fail. Within a stream it goes
// as soon as it is free; to another stream's home, once its host's stream has passed. Not thread-safe.
class GuestReturns {
 public:
  GuestReturns(ArenaSet& arenas, HandleTable& handles) : arenas_(arenas), handles_(handles) {}

  // [start, end) of the free block `block` has just become free. Returns whether guests from other streams are left.
  bool BecameFree(Block* block, Address start, Address end);
  // The extent's stream has passed its use of [start, end), of which some may be in use again.
  void SendPassed(Extent& extent, Address start, Address end);
  // Guests moved into the run; some of it may have stayed free.
  void MovedInto(const PageRun& run) { Await(run); }

  // Sends home all guests whose host's stream has passed by now. Where its wait policy allows stream waits, the
  // attempt's stream waits for those whose home is with it. Asks the device.
  void Recall(Attempt& attempt);

  // Every guest that is free lies in a run that is known to be waiting.
  void CheckInvariants() const;

 private:
  // Whether a guest may leave the free block.
  using Goes = absl::FunctionRef<bool(const Block&, const Handle&)>;
  // Where guests lie, side by side, and where they lie side by side at home.
  struct Leavers {
    PageRun from;
    PageRun home;
  };

  // Those among the whole free pages that `goes`, but for those whose home is being filled; from the highest page down.
  // stays(PageRun) for each of the others.
  template <typename Stays>
  static std::vector<Leavers> LeaversOf(const Donation& free, Goes goes, Stays&& stays);
  // Sends those home. `homes` gets the pages that they are at then, which are holes until FillAll: what is filled joins
  // free blocks, perhaps the very one that was left. Runs that keep a guest go on waiting.
  void Send(const Donation& free, std::vector<PageRun>& homes, Goes goes);
  static void FillAll(const std::vector<PageRun>& homes);
  void Await(PageRun run);
  bool IsAwaited(const Handle& guest) const;

  ArenaSet& arenas_;
  HandleTable& handles_;
  // Runs that may have free guests, by their first address, none beside another: a miss looks at these alone. A run of
  // which a block is in use is forgotten as far as that goes, and known again when the block becomes free.
  absl::btree_map<Address, PageRun> waiting_;
};

}  // namespace frugal
