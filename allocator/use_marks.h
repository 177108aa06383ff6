// A moment in the work of all streams: what was last used before it has been idle since.

#ifndef FRUGAL_ALLOCATOR_USE_MARKS_H_
#define FRUGAL_ALLOCATOR_USE_MARKS_H_

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "allocator/arena_set.h"
#include "allocator/block.h"
#include "allocator/timelines.h"
#include "allocator/units.h"

namespace frugal {

// Not thread-safe. Can be copied, for those who go on by these marks while others move them.
class UseMarks {
 public:
  // Moves the marks of the streams that have free memory to give back to now: one event for each stream that is known.
  // The mark of a stream that cannot be marked now stays where it was.
  void MoveToNow(const ArenaSet& arenas, Timelines& timelines) {
    absl::flat_hash_map<const Timeline*, Timeline::Tick> present;
    for (const Arena* arena : arenas.all()) {
      if (arena->free_blocks().LargestSize() >= kPageSize) present[&arena->timeline()] = arena->timeline().now();
    }
    if (present.empty()) return;
    era_ = timelines.End();
    for (const auto& [timeline, tick] : present) {
      if (timeline->now() > tick) marks_[timeline] = tick;
    }
  }

  // The era that ended with the latest marks.
  Timelines::Era era() const { return era_; }

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
  Timelines::Era era_ = 0;
};

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_USE_MARKS_H_
