// A history as the replay reads it: every allocation and free of a recorded run, in order.
//
// bindings/frugal_alloc/_histories.py packs the same layout (its EVENT): change both or neither.

#ifndef FRUGAL_BINDINGS_REPLAY_HISTORY_H_
#define FRUGAL_BINDINGS_REPLAY_HISTORY_H_

#include <cstdint>

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

}  // namespace frugal::replay

#endif  // FRUGAL_BINDINGS_REPLAY_HISTORY_H_
