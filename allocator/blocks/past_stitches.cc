#include "allocator/blocks/past_stitches.h"

namespace frugal {

void PastStitches::Add(Bytes size, PageRun run) {
  std::deque<int64_t>& positions = by_size_[size.count()];
  MoveCursor(positions, run);
  positions.push_back(oldest_ + static_cast<int64_t>(stitches_.size()));
  stitches_.push_back({size, run});
  if (stitches_.size() <= kMostStitches) return;
  auto oldest = by_size_.find(stitches_.front().size.count());
  oldest->second.pop_front();
  if (oldest->second.empty()) by_size_.erase(oldest);
  stitches_.pop_front();
  ++oldest_;
}

// The cursor goes behind the same stitch of the iteration before. If that was made elsewhere, it goes behind the one
// that was expected here. If none is left of that iteration, it goes to the end, from where the search goes on with the
// oldest.
void PastStitches::MoveCursor(const std::deque<int64_t>& positions, PageRun run) {
  const int64_t end = oldest_ + static_cast<int64_t>(stitches_.size()) + 1;
  if (positions.empty() || positions.back() < cursor_) cursor_ = end;
  if (positions.empty()) return;
  const size_t expected = NextOf(positions);
  if (cursor_ < end) cursor_ = positions[expected] + 1;
  size_t next = expected;
  for (size_t tries = std::min(positions.size(), kMostTries); tries > 0; --tries) {
    if (At(positions[next]).run == run) {
      cursor_ = positions[next] + 1;
      return;
    }
    next = (next + 1) % positions.size();
  }
}

}  // namespace frugal
