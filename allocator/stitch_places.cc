#include "allocator/stitch_places.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace frugal {
namespace {

// Of the edges, those that need the fewest pages. More were tried on all histories: none got better.
constexpr size_t kMostEdges = 8;

const Block* IfFree(const Block* block) { return block != nullptr && block->IsFree() ? block : nullptr; }

Bytes SizeOf(const Block* block) { return block == nullptr ? Bytes(0) : block->size; }

// The places at either end of `run`, which has these free blocks beside it.
void AddEdges(PageRun run, const Block* left, const Block* right, Bytes size, std::vector<StitchPlace>& places) {
  if (run.count == 0 || SizeOf(left) + Pages(run.count).bytes() + SizeOf(right) < size) return;
  const int64_t from_left = PagesCovering(size - SizeOf(left)).count();
  const int64_t from_right = PagesCovering(size - SizeOf(right)).count();
  if (from_left < run.count) places.push_back({PageRun{run.extent, run.first, from_left}, left, nullptr});
  if (from_right < run.count && right != nullptr) {
    places.push_back({PageRun{run.extent, run.end() - from_right, from_right}, nullptr, right});
  }
  if (from_left >= run.count || from_right >= run.count) places.push_back({run, left, right});
}

void AddEdgesOf(const Block& hole, Bytes size, const Offers& offers, std::vector<StitchPlace>& places) {
  const Block* const left = IfFree(hole.previous);
  const Block* const right = IfFree(hole.next);
  if (SizeOf(left) + hole.size + SizeOf(right) < size) return;
  Extent& extent = *hole.extent;
  const PageRun all = extent.WholePages(hole.address, hole.end());
  const auto is_kept = [&extent, &offers](int64_t page) {
    return IsKept(extent, page) && offers.Find(*extent.view(page).handle) == nullptr;
  };
  // What lies between kept pages touches no free bytes: the side extent serves as well.
  const int64_t touched = std::clamp(extent.touched(), all.first, all.end());
  int64_t low = all.first;
  while (low < touched && !is_kept(low)) ++low;
  if (low == touched) return AddEdges(all, left, right, size, places);
  int64_t high = touched;
  while (!is_kept(high - 1)) --high;
  AddEdges({&extent, all.first, low - all.first}, left, nullptr, size, places);
  AddEdges({&extent, high, all.end() - high}, nullptr, right, size, places);
}

}  // namespace

std::optional<StitchPlace> PlaceAt(const Arena& arena, PageRun run, Bytes size) {
  const Address start = run.extent->PageAddress(run.first);
  const Address end = run.extent->PageAddress(run.end());
  auto after = arena.holes().upper_bound(start);
  if (after == arena.holes().begin()) return std::nullopt;
  const Block& hole = *std::prev(after)->second;
  if (hole.end() < end) return std::nullopt;
  const StitchPlace place{run, hole.address == start ? IfFree(hole.previous) : nullptr,
                          hole.end() == end ? IfFree(hole.next) : nullptr};
  if (place.left_size() + (end - start) + place.right_size() < size) return std::nullopt;
  return place;
}

std::vector<StitchPlace> FindPlaces(const Arena& arena, Bytes size, const Offers& offers) {
  std::vector<StitchPlace> places;
  for (const auto& [address, hole] : arena.holes()) AddEdgesOf(*hole, size, offers, places);
  std::stable_sort(places.begin(), places.end(),
                   [](const StitchPlace& a, const StitchPlace& b) { return a.run.count < b.run.count; });
  if (places.size() > kMostEdges) places.resize(kMostEdges);
  const PageRun side = arena.side().Next(PagesCovering(size).count());
  if (side.count > 0) places.push_back({side, nullptr, nullptr});
  return places;
}

std::optional<StitchPlace> UntouchedPlace(const Arena& arena, Bytes size) {
  const int64_t pages = PagesCovering(size).count();
  for (const auto& [address, hole] : arena.holes()) {
    Extent& extent = *hole->extent;
    const PageRun all = extent.WholePages(hole->address, hole->end());
    const int64_t first = std::max(all.first, extent.touched());
    if (first + pages <= all.end()) return StitchPlace{{&extent, first, pages}, nullptr, nullptr};
  }
  return std::nullopt;
}

}  // namespace frugal
