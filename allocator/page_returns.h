// How free pages go back to the device.

#ifndef FRUGAL_ALLOCATOR_PAGE_RETURNS_H_
#define FRUGAL_ALLOCATOR_PAGE_RETURNS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/arena_set.h"
#include "allocator/handle_table.h"
#include "allocator/ledger.h"
#include "allocator/offers.h"
#include "allocator/timelines.h"
#include "allocator/units.h"
#include "allocator/use_marks.h"

namespace frugal {

// A page goes when its own stream has passed its last use, and all streams what they were told while it could be seen.
// A stream that fails keeps its own memory, and nobody else's. Not thread-safe.
class PageReturns {
 public:
  PageReturns(ArenaSet& arenas, HandleTable& handles, Timelines& timelines, Ledger& ledger)
      : arenas_(arenas), handles_(handles), timelines_(timelines), ledger_(ledger) {}

  // See Backing. The first gives what all streams have passed since the latest era ended. On an error what has gone has
  // gone.
  absl::StatusOr<Bytes> ReturnFree(Bytes enough);
  absl::StatusOr<Bytes> ReturnIdle(Bytes enough, const UseMarks& marks);

  // Handles without a place, of which nobody sees anything any more. `returned` is raised by what they are.
  absl::Status ReturnSpares(Bytes enough, Bytes& returned);

 private:
  // `era`: all streams have passed it, and nobody was told to use the pages after it.
  absl::Status ReturnPagesOf(Arena& arena, Bytes enough, Timelines::Era era, Bytes& returned);
  absl::Status ReturnRun(Arena& arena, const Donation& donation, Bytes& returned);
  // What the run's handles can be seen at beside their places; false if something may still use it.
  absl::StatusOr<bool> UnmapStaleViews(Handle& handle);
  bool HasPassed(Timeline& timeline, Timeline::Tick tick);

  ArenaSet& arenas_;
  HandleTable& handles_;
  Timelines& timelines_;
  Ledger& ledger_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_PAGE_RETURNS_H_
