#include "simulated_gpu/machine/access_history.h"

#include <algorithm>
#include <iterator>

namespace frugal::sim {

void AddToFrontier(std::vector<Access>& accesses, const Access& added, const VectorClock& seen) {
  std::erase_if(accesses, [&](const Access& before) { return before.IsSeenBy(seen); });
  accesses.push_back(added);
}

void AccessHistory::Enter(int64_t begin, int64_t end, const Access& access, const VectorClock& seen,
                          const Unordered& unordered) {
  Cut(end);
  for (auto span = Cut(begin); span != spans_.end() && span->begin < end; ++span) {
    if (!span->write.IsSeenBy(seen)) unordered(span->write);
    if (!access.writes) continue;
    for (const Access& read : span->reads) {
      if (!read.IsSeenBy(seen)) unordered(read);
    }
  }
  if (access.writes) {
    Write(begin, end, access);
  } else {
    Read(begin, end, access, seen);
  }
}

AccessHistory::Spans::iterator AccessHistory::Cut(int64_t offset) {
  const auto found =
      std::partition_point(spans_.begin(), spans_.end(), [&](const Span& span) { return span.end <= offset; });
  if (found == spans_.end() || found->begin >= offset) return found;
  Span after = *found;
  after.begin = offset;
  found->end = offset;
  return spans_.insert(std::next(found), std::move(after));
}

void AccessHistory::Write(int64_t begin, int64_t end, const Access& access) {
  const auto first = Cut(begin);
  auto last = first;
  while (last != spans_.end() && last->begin < end) ++last;
  const Span written{begin, end, access, {}};
  if (first == last) {
    spans_.insert(first, written);
  } else {
    *first = written;
    spans_.erase(std::next(first), last);
  }
}

void AccessHistory::Read(int64_t begin, int64_t end, const Access& access, const VectorClock& seen) {
  auto span = Cut(begin);
  for (int64_t reached = begin; reached < end; ++span) {
    if (span == spans_.end() || span->begin > reached) {
      const int64_t gap_end = span == spans_.end() ? end : std::min(end, span->begin);
      span = spans_.insert(span, {reached, gap_end, {}, {}});
    }
    AddToFrontier(span->reads, access, seen);
    reached = span->end;
  }
}

}  // namespace frugal::sim
