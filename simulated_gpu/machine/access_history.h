// Who touched which bytes of one page of physical memory last.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/vector_clock.h"

namespace frugal::sim {

// One operation that touches a range of addresses.
struct Access {
  uint32_t stream = 0;     // Its number in vector clocks.
  uint64_t operation = 0;  // Of the stream, from 1; 0: none.
  uint32_t name = 0;       // Among the checker's names.
  Address start;
  Bytes size;
  bool writes = false;

  bool IsSeenBy(const VectorClock& clock) const { return operation <= clock.at(stream); }
};

// For each byte the last write, and the reads since then that do not come one after the other: what the next access has
// to be ordered with. Those before need not be kept, since whoever comes after these comes after them. Not thread-safe.
class AccessHistory {
 public:
  using Unordered = std::function<void(const Access& before)>;

  // `access` touches [begin, end) of the page, by somebody who has seen `seen`. Calls `unordered` for each earlier
  // access there that is not in `seen` although one of the two writes.
  void Enter(int64_t begin, int64_t end, const Access& access, const VectorClock& seen, const Unordered& unordered);

 private:
  struct Span {
    int64_t begin;
    int64_t end;
    Access write;  // operation 0: none.
    std::vector<Access> reads;
  };
  using Spans = std::vector<Span>;

  // The first span at or after `offset`, none of which lies across it.
  Spans::iterator Cut(int64_t offset);
  void Write(int64_t begin, int64_t end, const Access& access);
  void Read(int64_t begin, int64_t end, const Access& access, const VectorClock& seen);

  Spans spans_;  // By offset, apart from each other; what lies between was never touched.
};

// Drops what `seen` has seen from the accesses and adds one.
void AddToFrontier(std::vector<Access>& accesses, const Access& added, const VectorClock& seen);

}  // namespace frugal::sim
