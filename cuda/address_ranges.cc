#include "cuda/address_ranges.h"

#include <algorithm>
#include <iterator>

namespace frugal {

void AddressRanges::Add(Address start, Bytes size) {
  Address end = start + size;
  auto next = ranges_.lower_bound(start);
  if (next != ranges_.begin() && std::prev(next)->second >= start) {
    --next;
    start = next->first;
  }
  while (next != ranges_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ranges_.erase(next);
  }
  ranges_[start] = end;
}

void AddressRanges::Remove(Address start, Bytes size) {
  const Address end = start + size;
  auto range = ranges_.upper_bound(start);
  if (range != ranges_.begin() && std::prev(range)->second > start) --range;
  while (range != ranges_.end() && range->first < end) {
    const auto [first, last] = *range;
    range = ranges_.erase(range);
    if (first < start) ranges_[first] = start;
    if (last > end) ranges_[end] = last;
  }
}

}  // namespace frugal
