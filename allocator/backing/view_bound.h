// How many mappings of its handles a device's allocator keeps.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/backing/page_returns.h"
#include "allocator/blocks/arena.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/ledger.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/stitching/handle_table.h"

namespace frugal {

// Old views stay, since a later request may find its handles there; they go when something else is to be mapped in
// their place. Where a stream passes nothing, that may be never: stitches then go to new addresses, and all processes
// of a machine share the places that a driver has for mappings. So views are bounded by the number of handles, and the
// ranges of an arena by a constant. Those that go are the oldest that nothing can use. What is done if there are not
// enough of them, each step only if those before did not help:
// 1. The host waits, if that is for streams alone that the program may have destroyed, or that fail.
// 2. Another stream that has not even passed what it was told when the oldest of the views was left is set aside. It
//    may be busy for ever, so that a wait for it would never end.
// 3. The host waits. What is in the way then are views of streams whose own work on them is not done.
// Not thread-safe. Lets go of the accounting lock while the driver unmaps.
class ViewBound {
 public:
  ViewBound(ArenaSet& arenas, HandleTable& handles, StreamClocks& clocks, Ledger& ledger)
      : arenas_(arenas), handles_(handles), clocks_(clocks), ledger_(ledger) {}

  // Before something is mapped.
  void Keep();
  // The arena has no place for a request. True: it may have one now without another range.
  bool MakePlaces(Arena& arena);
  // The driver has no place for another mapping.
  void MakeRoomForMappings();

 private:
  using Era = StreamClocks::Era;
  struct Old {
    PageRef page;  // the first of the view
    Era left_in;
  };

  // Views for each handle, and some for those who have few. Random sizes on one stream take 13; at 12, two streams in
  // little memory have half as many unmaps again, at 32 no more than without.
  static constexpr int64_t kViewsOfHandle = 32;
  static constexpr int64_t kFewViews = 1024;
  // At the bound, so great a part of it goes at once: each time all pages are looked at.
  static constexpr int64_t kPartThatGoes = 8;
  // Ranges of an arena that are had for the asking: addresses cost next to nothing. No history takes more than five; at
  // five, work on streams that are always behind has 56 % more unmaps, at eight as many as without.
  static constexpr size_t kRanges = 8;
  // When the driver has no room for mappings, so many views go at a time: 30 us each.
  static constexpr int64_t kMostDropped = 1024;

  int64_t views() const { return handles_.counts().views; }
  // Unmaps until `aim` views are left, going from step to step while there are more than `enough`. `of`: those of that
  // arena alone; null: of all.
  void Reduce(int64_t aim, int64_t enough, const Arena* of);
  // The same without the steps.
  void Unmap(int64_t aim, const Arena* of);
  std::vector<Old> OldViews(const Arena* of) const;
  // The first two steps: streams that have not passed `era` are waited for, or set aside.
  void DoWithout(Era era);
  void Wait();

  ArenaSet& arenas_;
  HandleTable& handles_;
  StreamClocks& clocks_;
  Ledger& ledger_;
  // The bound could not be kept, and is tried again when there are more views than this.
  int64_t beyond_ = 0;
};

}  // namespace frugal
