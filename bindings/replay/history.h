// A history as the replay reads it: every allocation and free of a recorded run, in order.
//
// bindings/frugal_alloc/_planning/replay/history.py has the same layout (its EVENT): change both or neither.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace frugal::replay {

enum class Operation : uint32_t { kAllocate = 0, kFree = 1 };

// Little endian, without padding.
struct Event {
  Operation operation;
  // Names the allocation that is made or freed; each is made once and freed at most once.
  uint32_t allocation;
  // Bytes asked for. 0 for a free.
  uint64_t size;
  // The stream that the memory is allocated on, as a number below the history's count of streams;
  // 0 is the default stream. 0 for a free.
  uint32_t stream;
  // With `ready`: the stream that still uses the memory when it is freed.
  uint32_t late_stream;
  // Not 0: the memory is still in use on `late_stream` when it is freed, until the event of this
  // number is reached (the number of events: until the end).
  uint64_t ready;
};
static_assert(sizeof(Event) == 32);

// Whether `events` is a history: every free is of an allocation made before and not yet freed, and all
// numbers are in range.
inline bool Validate(std::span<const Event> events, uint64_t initial_count, uint32_t allocation_count,
                     uint32_t stream_count) {
  enum class State : uint8_t { kNone, kLive, kFreed };
  if (initial_count > events.size() || stream_count == 0) return false;
  std::vector<State> states(allocation_count, State::kNone);
  for (uint64_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (event.allocation >= allocation_count || event.stream >= stream_count) return false;
    if (event.late_stream >= stream_count || event.ready > events.size()) return false;
    State& state = states[event.allocation];
    if (event.operation == Operation::kAllocate && state == State::kNone && event.size > 0) {
      state = State::kLive;
    } else if (event.operation == Operation::kFree && state == State::kLive) {
      state = State::kFreed;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace frugal::replay
