#include "allocator/stitch_plan.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "allocator/handle_table.h"
#include "allocator/stitch_places.h"

namespace frugal {
namespace {

// A view that a loop needs again next turn is unmapped and mapped in every turn, so it counts a hundred times what the
// unmap takes: at ten times, two of 24 loops of random sizes never came to rest.
constexpr int64_t kUnmapWeight = 100;
// A whole free page that would have been spared, in nanoseconds. Ten times as much changes next to nothing.
constexpr int64_t kWholePage = 100'000;

struct Cost {
  int64_t creations = 0;
  int64_t nanoseconds = 0;
  friend bool operator<(const Cost& a, const Cost& b) {
    return std::tie(a.creations, a.nanoseconds) < std::tie(b.creations, b.nanoseconds);
  }
};

int64_t WholePagesOf(const Block* block) {
  return block == nullptr ? 0 : block->extent->WholePages(block->address, block->end()).count;
}

// By how many the whole free pages become fewer when `size` bytes of the filled place are used.
int64_t PagesConsumed(const StitchPlace& place, Bytes size) {
  Extent& extent = *place.run.extent;
  const Address start = place.left != nullptr ? place.left->address : extent.PageAddress(place.run.first);
  const Address end = place.right != nullptr ? place.right->end() : extent.PageAddress(place.run.end());
  const int64_t before = WholePagesOf(place.left) + place.run.count + WholePagesOf(place.right);
  return before - extent.WholePages(start + size, end).count;
}

class Planner {
 public:
  Planner(const Offers& offers, const DriverCosts& costs) : offers_(offers), costs_(costs) {}

  Cost CostOf(const StitchPlace& place, Bytes size) const {
    const int64_t available = offers_.pages().count() - WholePagesOf(place.left) - WholePagesOf(place.right);
    Cost cost{std::max<int64_t>(0, place.run.count - available), kWholePage * PagesConsumed(place, size)};
    for (int64_t page = place.run.first; page < place.run.end(); ++page) {
      if (SeenAndOnOffer(place, page) != nullptr) continue;
      cost.nanoseconds += costs_.MapOne() + (MustUnmap(place, page) ? kUnmapWeight * costs_.unmap : 0);
    }
    return cost;
  }

  // Whether all old views that are in the way may be unmapped now. Asks the device: only of a place to be taken.
  bool IsUsable(const StitchPlace& place, absl::FunctionRef<bool(PageRef)> may_unmap) const {
    absl::flat_hash_set<const Handle*> taken;
    for (int64_t page = place.run.first; page < place.run.end(); ++page) {
      const Handle* const seen = SeenAndOnOffer(place, page);
      // A handle can have two old views in one place; it is taken for the first, and the second has to go.
      const bool stays = seen != nullptr && taken.insert(seen).second;
      if (!stays && MustUnmap(place, page) && !may_unmap({place.run.extent, page})) return false;
    }
    return true;
  }

  // The plan that takes each page as it is seen; nullopt: that is not possible.
  std::optional<StitchPlan> PlanAsSeen(const StitchPlace& place, Bytes size) const {
    StitchPlan plan = EmptyPlan(place, size);
    absl::flat_hash_set<Handle*> taken;
    for (int64_t page = place.run.first; page < place.run.end(); ++page) {
      if (!TakeAsSeen(place, page, plan, taken)) return std::nullopt;
    }
    plan.donations = DonationsOf(taken);
    return plan;
  }

  StitchPlan Plan(const StitchPlace& place, Bytes size) const {
    StitchPlan plan = EmptyPlan(place, size);
    absl::flat_hash_set<Handle*> taken;
    for (int64_t page = place.run.first; page < place.run.end(); ++page) {
      TakeAsSeen(place, page, plan, taken);
    }
    TakeFromLargest(place, plan, taken);
    plan.to_create = Pages(std::count(plan.handles.begin(), plan.handles.end(), nullptr));
    plan.donations = DonationsOf(taken);
    return plan;
  }

 private:
  static StitchPlan EmptyPlan(const StitchPlace& place, Bytes size) {
    StitchPlan plan;
    plan.size = size;
    plan.target = place.run;
    plan.handles.resize(static_cast<size_t>(place.run.count));
    return plan;
  }

  static bool MustUnmap(const StitchPlace& place, int64_t page) {
    return place.run.extent->view(page).state == View::State::kStale;
  }

  // What the place joins is not taken away from it.
  static bool IsPartOf(const StitchPlace& place, const Donation& donation) {
    return donation.block == place.left || donation.block == place.right;
  }

  // The handle whose old view is at the page, if it may be taken; else null.
  Handle* SeenAndOnOffer(const StitchPlace& place, int64_t page) const {
    const View& view = place.run.extent->view(page);
    if (view.state != View::State::kStale) return nullptr;
    const Donation* donation = offers_.Find(*view.handle);
    return donation == nullptr || IsPartOf(place, *donation) ? nullptr : view.handle;
  }

  // Returns whether the page could be had as it is seen.
  bool TakeAsSeen(const StitchPlace& place, int64_t page, StitchPlan& plan, absl::flat_hash_set<Handle*>& taken) const {
    Handle* handle = SeenAndOnOffer(place, page);
    // A handle can have two old views in one place.
    if (handle == nullptr || !taken.insert(handle).second) return false;
    plan.handles[static_cast<size_t>(page - place.run.first)] = handle;
    return true;
  }

  void TakeFromLargest(const StitchPlace& place, StitchPlan& plan, absl::flat_hash_set<Handle*>& taken) const {
    auto next = plan.handles.begin();
    for (const Donation& donation : offers_.from_largest()) {
      if (IsPartOf(place, donation)) continue;
      for (int64_t page = donation.run.first; page < donation.run.end(); ++page) {
        next = std::find(next, plan.handles.end(), nullptr);
        if (next == plan.handles.end()) return;
        Handle* handle = donation.run.extent->view(page).handle;
        if (taken.insert(handle).second) *next = handle;
      }
    }
  }

  std::vector<Donation> DonationsOf(const absl::flat_hash_set<Handle*>& taken) const {
    std::vector<PageRef> places;
    for (const Handle* handle : taken) places.push_back(handle->place);
    std::sort(places.begin(), places.end(), [](const PageRef& a, const PageRef& b) {
      return a.extent->PageAddress(a.page) > b.extent->PageAddress(b.page);
    });
    std::vector<Donation> result;
    for (const PageRef& place : places) {
      Block* const block = offers_.Find(*place.extent->view(place.page).handle)->block;
      if (!result.empty() && result.back().block == block && result.back().run.first == place.page + 1) {
        --result.back().run.first;
        ++result.back().run.count;
      } else {
        result.push_back({block, PageRun{place.extent, place.page, 1}});
      }
    }
    return result;
  }

  const Offers& offers_;
  const DriverCosts& costs_;
};

}  // namespace

int64_t RemapNanoseconds(const StitchPlan& plan, const DriverCosts& costs) {
  int64_t nanoseconds = 0;
  for (int64_t i = 0; i < plan.target.count; ++i) {
    const Handle* handle = plan.handles[static_cast<size_t>(i)];
    const View& view = plan.target.extent->view(plan.target.first + i);
    if (handle == nullptr || view.handle == handle) continue;
    nanoseconds += costs.MapOne() + (view.state == View::State::kNone ? 0 : costs.unmap);
  }
  return nanoseconds;
}

std::optional<StitchPlan> PlanStitch(const Arena& arena, Bytes size, const Offers& offers,
                                     absl::FunctionRef<bool(PageRef)> may_unmap, const DriverCosts& costs) {
  const Planner planner(offers, costs);
  std::optional<StitchPlan> as_before;
  arena.past_stitches().FindOfSize(size, [&](PageRun run) {
    const std::optional<StitchPlace> place = PlaceAt(arena, run, size);
    if (place.has_value()) as_before = planner.PlanAsSeen(*place, size);
    return as_before.has_value();
  });
  if (as_before.has_value()) return as_before;

  std::vector<std::pair<Cost, StitchPlace>> places;
  for (const StitchPlace& place : FindPlaces(arena, size, offers))
    places.push_back({planner.CostOf(place, size), place});
  std::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [cost, place] : places) {
    if (planner.IsUsable(place, may_unmap)) return planner.Plan(place, size);
  }
  return PlanStitchApart(arena, size, offers, costs);
}

std::optional<StitchPlan> PlanStitchApart(const Arena& arena, Bytes size, const Offers& offers,
                                          const DriverCosts& costs) {
  const std::optional<StitchPlace> untouched = UntouchedPlace(arena, size);
  if (!untouched.has_value()) return std::nullopt;
  return Planner(offers, costs).Plan(*untouched, size);
}

}  // namespace frugal
