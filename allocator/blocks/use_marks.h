// A moment in the work of all streams: what was last used before it has been idle since.

#pragma once

#include "absl/container/flat_hash_map.h"
#include "allocator/blocks/arena_set.h"
#include "allocator/blocks/block.h"
#include "allocator/blocks/stream_clocks.h"
#include "allocator/blocks/stream_questions.h"
#include "allocator/port/units.h"

namespace frugal {

// Not thread-safe. The first two ask the device. Can be copied, for those who go on by these marks while others move
// them.
class UseMarks {
 public:
  // An interval after the latest marks: streams that have not passed them all this time are waited for no longer.
  void SetSlowAside(StreamClocks& clocks) const {
    if (!clocks.HasPassed(era_)) clocks.SetAside(era_);
  }

  // Moves the marks of the streams that have free memory to give back to now: one event for each stream that is known.
  // The mark of a stream that is captured, or fails, stays where it was.
  void MoveToNow(const ArenaSet& arenas, StreamClocks& clocks) {
    absl::flat_hash_map<const StreamClock*, StreamClock::Tick> present;
    for (const Arena* arena : arenas.all()) {
      if (arena->free_blocks().LargestSize() >= kPageSize) present[&arena->clock()] = arena->clock().now();
    }
    if (present.empty()) return;
    era_ = clocks.End();
    for (const auto& [clock, tick] : present) {
      if (clock->IsEnded(tick) || !clock->stream().lasts()) marks_[clock] = tick;
    }
  }

  // The era that ended with the latest marks.
  StreamClocks::Era era() const { return era_; }

  // Whether the free block has not been used since the mark of its stream.
  bool IsUnused(const Block& block) const {
    const StreamClock& clock = block.extent->arena().clock();
    const auto mark = marks_.find(&clock);
    return mark != marks_.end() && clock.Expand(block.last_use) <= mark->second;
  }
  // And its last use is done. No tick ends.
  bool IsIdle(const Block& block, StreamQuestions& questions) const {
    StreamClock& clock = block.extent->arena().clock();
    const StreamClock::Tick last_use = clock.Expand(block.last_use);
    return IsUnused(block) && clock.IsEnded(last_use) && questions.HasPassed(clock, last_use);
  }

 private:
  // The latest tick before the mark.
  absl::flat_hash_map<const StreamClock*, StreamClock::Tick> marks_;
  StreamClocks::Era era_ = 0;
};

}  // namespace frugal
