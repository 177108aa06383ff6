// A moment in the work of each stream: what was last used before it has been idle since.

#ifndef FRUGAL_ALLOCATOR_USE_MARKS_H_
#define FRUGAL_ALLOCATOR_USE_MARKS_H_

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/arena_set.h"
#include "allocator/block.h"
#include "allocator/timeline.h"
#include "allocator/units.h"

namespace frugal {

// Not thread-safe.
class UseMarks {
 public:
  // Moves the marks of the streams that have free memory to give back to now: one event each. The mark of a stream that
  // is being captured stays where it was.
  absl::Status MoveToNow(const ArenaSet& arenas) {
    for (const Arena* arena : arenas.all()) {
      if (arena->free_blocks().LargestSize() < kPageSize) continue;
      Timeline& timeline = arena->timeline();
      const Timeline::Tick now = timeline.now();
      const absl::StatusOr<bool> ended = timeline.End(now);
      if (!ended.ok()) return ended.status();
      if (*ended) marks_[&timeline] = now;
    }
    return absl::OkStatus();
  }

  // Whether the free block has not been used since the mark of its stream, and its last use is done. No tick ends.
  absl::StatusOr<bool> IsIdle(const Block& block) const {
    Timeline& timeline = block.extent->arena().timeline();
    const auto mark = marks_.find(&timeline);
    const Timeline::Tick last_use = timeline.Expand(block.last_use);
    if (mark == marks_.end() || last_use > mark->second) return false;
    return timeline.HasPassed(last_use);
  }

 private:
  // The latest tick before the mark.
  absl::flat_hash_map<const Timeline*, Timeline::Tick> marks_;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_USE_MARKS_H_
