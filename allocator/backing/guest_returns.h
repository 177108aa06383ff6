// How handles that were lent to another place go home.

#ifndef FRUGAL_ALLOCATOR_BACKING_GUEST_RETURNS_H_
#define FRUGAL_ALLOCATOR_BACKING_GUEST_RETURNS_H_

#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "allocator/backing/backing.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/ledger.h"
#include "allocator/stitching/handle_table.h"
#include "allocator/stitching/offers.h"

namespace frugal {

// A guest's home is mapped all the time, so going there takes no driver call and cannot fail. Within a stream it goes
// as soon as it is free; to another stream's home, once its host's stream has passed. Not thread-safe.
class GuestReturns {
 public:
  GuestReturns(ArenaSet& arenas, HandleTable& handles, Ledger& ledger)
      : arenas_(arenas), handles_(handles), ledger_(ledger) {}

  // [start, end) of the free block `block` has just become free.
  void BecameFree(Block* block, Address start, Address end);
  // Guests moved into the run; some of it may have stayed free.
  void MovedInto(const PageRun& run) { Await(run); }

  // Sends home all guests whose host's stream has passed by now. Where `wait_policy` allows stream waits, the
  // stream of `arena` waits for those whose home is with it.
  void Recall(const Arena& arena, WaitPolicy wait_policy);

  // Every guest that is free lies in a run that is known to be waiting.
  void CheckInvariants() const;

 private:
  // Sends home those guests among the whole free pages that `goes`, but for those whose home is being filled. `homes`
  // gets the pages that they are at then, which are holes until FillAll: what is filled joins free blocks, perhaps the
  // very one that was left. Runs that keep a guest go on waiting.
  void Send(const Donation& free, std::vector<PageRun>& homes, absl::FunctionRef<bool(const Handle&)> goes);
  static void FillAll(const std::vector<PageRun>& homes);
  // What of the run is free by now.
  void RecallFrom(const PageRun& run, const Arena& arena, WaitPolicy wait_policy, std::vector<PageRun>& homes);
  void RecallFrom(const Donation& free, const Arena& arena, WaitPolicy wait_policy, std::vector<PageRun>& homes);
  void Await(PageRun run);
  bool IsAwaited(const Handle& guest) const;

  ArenaSet& arenas_;
  HandleTable& handles_;
  Ledger& ledger_;
  // Runs that may have free guests, by their first address, none beside another: a miss looks at these alone. A run of
  // which a block is in use is forgotten as far as that goes, and known again when the block becomes free.
  absl::btree_map<Address, PageRun> waiting_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BACKING_GUEST_RETURNS_H_
