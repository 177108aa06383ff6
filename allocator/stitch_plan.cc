#include "allocator/stitch_plan.h"

#include <algorithm>
#include <array>

namespace frugal {
namespace {

// A run of a hole that would do, with the free blocks that it would join.
struct Place {
  PageRun run;
  const Block* left = nullptr;
  const Block* right = nullptr;
};

Bytes FreeSizeOf(const Block* block) {
  return block != nullptr && block->state == BlockState::kFree ? block->size : Bytes(0);
}

// Filling `count` pages at the low or the high end of the hole.
PageRun EndOfHole(const Block& hole, int64_t count, bool high) {
  const int64_t first = (hole.address - hole.extent->start()).count() / kPageSize.count();
  const int64_t pages = hole.size.count() / kPageSize.count();
  return PageRun{hole.extent, high ? first + pages - count : first, count};
}

void AddPlacesIn(const Block& hole, Bytes size, std::vector<Place>& places) {
  const Bytes left = FreeSizeOf(hole.previous);
  const Bytes right = FreeSizeOf(hole.next);
  if (left + hole.size + right < size) return;
  const int64_t pages = hole.size.count() / kPageSize.count();
  const int64_t from_left = PagesCovering(size - left).count();
  const int64_t from_right = PagesCovering(size - right).count();
  const Block* const previous = hole.previous;
  const Block* const next = hole.next;
  if (from_left < pages) places.push_back({EndOfHole(hole, from_left, false), previous, nullptr});
  if (from_right < pages && right > Bytes(0)) places.push_back({EndOfHole(hole, from_right, true), nullptr, next});
  if (from_left >= pages || from_right >= pages) places.push_back({EndOfHole(hole, pages, false), previous, next});
}

bool IsUsable(const PageRun& run, absl::FunctionRef<bool(const View&)> is_unusable) {
  for (int64_t page = run.first; page < run.end(); ++page) {
    if (is_unusable(run.extent->view(page))) return false;
  }
  return true;
}

std::optional<Place> ChoosePlace(const Arena& arena, Bytes size, absl::FunctionRef<bool(const View&)> is_unusable) {
  std::vector<Place> places;
  for (const auto& [address, hole] : arena.holes()) AddPlacesIn(*hole, size, places);
  // Among places of equal cost the highest address first: the frontier needs no old view unmapped.
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    if (a.run.count != b.run.count) return a.run.count < b.run.count;
    return a.run.extent->PageAddress(a.run.first) > b.run.extent->PageAddress(b.run.first);
  });
  for (const Place& place : places) {
    if (IsUsable(place.run, is_unusable)) return place;
  }
  return std::nullopt;
}

std::vector<Donation> DonationsFrom(absl::Span<const Arena* const> donors, const Place& place) {
  std::vector<Donation> donations;
  for (const Arena* donor : donors) {
    for (const Donation& donation : WholeFreePages(*donor)) {
      if (donation.block != place.left && donation.block != place.right) donations.push_back(donation);
    }
  }
  std::stable_sort(donations.begin(), donations.end(),
                   [](const Donation& a, const Donation& b) { return a.run.count > b.run.count; });
  return donations;
}

}  // namespace

std::vector<Donation> WholeFreePages(const Arena& arena) {
  std::vector<Donation> donations;
  arena.free_blocks().ForEachFromLargest([&donations](Block* block) {
    if (block->size < kPageSize) return false;
    const PageRun run = block->extent->WholePages(block->address, block->end());
    if (run.count > 0) donations.push_back({block, run});
    return true;
  });
  return donations;
}

std::optional<StitchPlan> PlanStitch(const Arena& arena, Bytes size, absl::Span<const Arena* const> donors,
                                     absl::FunctionRef<bool(const View&)> is_unusable) {
  const std::optional<Place> place = ChoosePlace(arena, size, is_unusable);
  if (!place.has_value()) return std::nullopt;
  StitchPlan plan;
  plan.target = place->run;
  Pages lacking(place->run.count);
  for (Donation& donation : DonationsFrom(donors, *place)) {
    if (lacking == Pages(0)) break;
    donation.run.count = std::min(donation.run.count, lacking.count());
    lacking -= Pages(donation.run.count);
    plan.donations.push_back(donation);
  }
  plan.to_create = lacking;
  return plan;
}

}  // namespace frugal
