// Where an arena's stitches were made: what to try first when the same request misses again.

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "allocator/blocks/extent.h"
#include "allocator/port/units.h"

namespace frugal {

// A stitch leaves its views mapped. A training loop misses on the same requests in the same order in each iteration, so
// the stitches are kept in that order, and a cursor follows them one iteration behind: what came next for the same size
// is tried first. One place for each size would not do, since requests of one size find different memory free.
// Not thread-safe.
class PastStitches {
 public:
  // f(PageRun) for runs where requests of `size` were served, the likeliest first, until it returns true.
  template <typename F>
  void FindOfSize(Bytes size, F&& f) const {
    auto known = by_size_.find(size.count());
    if (known == by_size_.end()) return;
    const std::deque<int64_t>& positions = known->second;
    size_t next = NextOf(positions);
    for (size_t tries = std::min(positions.size(), kMostTries); tries > 0; --tries) {
      if (f(At(positions[next]).run)) return;
      next = (next + 1) % positions.size();
    }
  }

  // A request of `size` was served by filling `run`.
  void Add(Bytes size, PageRun run);

 private:
  struct Stitch {
    Bytes size;  // of the request
    PageRun run;
  };
  // Trying one costs about as much as a look at one edge of a hole, of which there are as many.
  static constexpr size_t kMostTries = 6;
  // Some hundred misses are a lot for an iteration.
  static constexpr size_t kMostStitches = 8192;

  const Stitch& At(int64_t position) const { return stitches_[static_cast<size_t>(position - oldest_)]; }
  // The first of the positions that is not before the cursor, else the oldest.
  size_t NextOf(const std::deque<int64_t>& positions) const {
    auto next = std::lower_bound(positions.begin(), positions.end(), cursor_);
    return next == positions.end() ? 0 : static_cast<size_t>(next - positions.begin());
  }
  void MoveCursor(const std::deque<int64_t>& positions, PageRun run);

  std::deque<Stitch> stitches_;  // in the order in which they were made, numbered from oldest_
  int64_t oldest_ = 0;
  int64_t cursor_ = 0;
  absl::flat_hash_map<int64_t, std::deque<int64_t>> by_size_;  // positions, rising
};

}  // namespace frugal
