// How free pages go back to the device.

#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/blocks/stream_questions.h"
#include "allocator/blocks/use_marks.h"
#include "allocator/port/pool_id.h"
#include "allocator/port/units.h"
#include "allocator/stitching/handle_table.h"
#include "allocator/stitching/offers.h"

namespace frugal {

// A page goes when its own stream has passed its last use, and all streams what they were told while it could be seen.
// A stream that fails keeps its own memory, and nobody else's. Not thread-safe. Lets go of the accounting lock while
// the driver works.
class PageReturns {
 public:
  PageReturns(ArenaSet& arenas, HandleTable& handles, StreamClocks& clocks, Ledger& ledger)
      : arenas_(arenas), handles_(handles), clocks_(clocks), ledger_(ledger) {}

  // See Backing. The first gives what all streams have passed since the latest era ended. The second waits for streams
  // that the program may have destroyed, and for those that fail, while no other has anything to do: a stream that may
  // be busy for ever is not waited for. On an error what has gone has gone.
  absl::StatusOr<Bytes> ReturnFree(Bytes enough, const OnlyPool& only);
  absl::StatusOr<Bytes> ReturnIdle(Bytes enough, const UseMarks& marks);

  // Handles without a place, of which nobody sees anything any more.
  absl::StatusOr<Bytes> ReturnSpares();

  // The handles of a run that none of the caller's blocks needs there, whole ones, go to the device, with all that they
  // can be seen at; returns how many pages went, from the first on. On an error the others are where they were.
  int64_t TakeAway(PageRun run, absl::Status& status);

  // Whether all work that could use the stale view at the page is done, so that it may be unmapped.
  static bool HasLeft(PageRef page, StreamQuestions& questions) {
    return questions.HaveLeft(page.view().left_in, page.extent->arena().clock(), page.view().last_use);
  }

 private:
  // What is on its way to the device. It is chosen while nothing else happens, and set aside: the driver's calls come
  // after that, and others may use memory meanwhile.
  struct Leaving {
    Bytes size;
    Bytes in_spares;              // that are to go
    std::vector<Donation> pages;  // of whole handles
  };

  // Whether idle memory cannot be had but behind a wait of the host.
  bool IsBehindHost(const UseMarks& marks);
  void ChooseSpares(Bytes enough, StreamQuestions& questions, Leaving& leaving) const;
  // Whole free pages that `goes(block)`, if nothing may still use what their handles can be seen at beside their
  // places.
  void ChoosePages(Bytes enough, absl::FunctionRef<bool(const Block&)> goes, StreamQuestions& questions,
                   Leaving& leaving) const;
  static bool HaveLeft(const PageRun& run, StreamQuestions& questions);
  static bool HasLeftAll(const Handle& handle, StreamQuestions& questions);

  // What went. What fails is free again.
  absl::StatusOr<Bytes> Return(const Leaving& leaving);
  // Another in the place of each that fails.
  absl::Status ReturnSpares(Bytes enough, Bytes& returned);
  absl::Status ReturnSpare(Handle* spare, Bytes& returned);
  absl::Status ReturnBlock(Block* claimed, Bytes& returned);
  // Of the block's handles, as many as the driver lets go, from the lowest address on.
  absl::Status UnmapHandles(const Block& claimed, std::vector<Handle*>& unmapped);
  // False: not now, because of a stream that is being captured.
  absl::StatusOr<bool> UnmapStaleViews(Handle& handle);

  ArenaSet& arenas_;
  HandleTable& handles_;
  StreamClocks& clocks_;
  Ledger& ledger_;
};

}  // namespace frugal
