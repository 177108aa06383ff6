#include "allocator/stitching/stitch_plan.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "allocator/port/check.h"
#include "allocator/stitching/handle_table.h"
#include "allocator/stitching/stitch_places.h"

namespace frugal {
namespace {

struct Cost {
  int64_t creations = 0;
  // Counted where pages are to be saved: a place apart is quick to fill, but each leaves up to a page unused at its
  // end, of which a program of blocks of 10 MiB had 470 MiB on a full GPU of 8 GiB. Counted always, one loop in 12
  // never reaches a steady state.
  int64_t pages = 0;
  int64_t nanoseconds = 0;
  friend bool operator<(const Cost& a, const Cost& b) {
    return std::tie(a.creations, a.pages, a.nanoseconds) < std::tie(b.creations, b.pages, b.nanoseconds);
  }
};

int64_t PowerAtMost(int64_t pages) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(pages))); }
int Power(int64_t pages) { return std::countr_zero(static_cast<uint64_t>(pages)); }

// The handles on offer, by size; of each size those of the largest runs first.
class Supply {
 public:
  Supply(const Offers& offers, Bytes size) {
    for (const Donation& donation : offers.Find(PagesCovering(size))) {
      for (int64_t page = donation.run.first; page < donation.run.end();) {
        Handle* handle = donation.run.extent->pages().view(page).handle;
        FRUGAL_CHECK(handle != nullptr);
        by_power_[static_cast<size_t>(Power(handle->pages))].push_back({handle, donation.block});
        page += handle->pages;
      }
    }
  }
  struct Item {
    Handle* handle;
    const Block* block;
  };
  // As many as a size in bytes can have: what lacks is looked up here, too, whatever was asked for.
  static constexpr int kPowers = 63;
  // Pages of the largest handle; 1 if there is none.
  int64_t largest() const {
    int power = kPowers - 1;
    while (power > 0 && OfPower(power).empty()) --power;
    return int64_t{1} << power;
  }
  const std::vector<Item>& OfPower(int power) const { return by_power_[static_cast<size_t>(power)]; }

 private:
  std::array<std::vector<Item>, kPowers> by_power_;
};

// Fills one place, page by page from the end that is fixed.
class Filler {
 public:
  Filler(const StitchPlace& place, const StitchRequest& request, const Supply& supply)
      : place_(place), request_(request), supply_(supply), down_(place.growth == StitchPlace::Growth::kDown) {}

  StitchPlan Fill() {
    const int64_t needed = place_.run.count;
    const int64_t room = place_.growth == StitchPlace::Growth::kNone ? needed : place_.room.count;
    while (filled_ < needed) {
      if (Handle* seen = SeenNext(room - filled_); seen != nullptr) {
        Take(seen);
        continue;
      }
      const int64_t lacking = needed - filled_;
      if (Handle* moved = Next(lacking, room - filled_); moved != nullptr) {
        Take(moved);
        continue;
      }
      Create(lacking);
    }
    return Finish();
  }

 private:
  bool IsPartOf(const Block* block) const { return block == place_.left || block == place_.right; }

  // The page that is filled next.
  int64_t Page() const { return down_ ? place_.run.end() - filled_ - 1 : place_.run.first + filled_; }

  // The handle whose old view begins, or ends, at the next page, if it may be taken.
  Handle* SeenNext(int64_t room) const {
    const View& view = place_.run.extent->pages().view(Page());
    if (view.state != View::State::kStale || view.handle->pages > room || taken_.contains(view.handle)) return nullptr;
    if (!view.accessible || view.part != (down_ ? view.handle->pages - 1 : 0)) return nullptr;
    const Block* const block = request_.offers.BlockOf(*view.handle);
    return block == nullptr || IsPartOf(block) ? nullptr : view.handle;
  }

  // The largest that is not larger than what is lacking, else the smallest for which there is room.
  Handle* Next(int64_t lacking, int64_t room) {
    for (int power = Power(PowerAtMost(lacking)); power >= 0; --power) {
      if (Handle* handle = NextOf(power); handle != nullptr) return handle;
    }
    for (int power = Power(PowerAtMost(lacking)) + 1; power < Supply::kPowers && (int64_t{1} << power) <= room;
         ++power) {
      if (Handle* handle = NextOf(power); handle != nullptr) return handle;
    }
    return nullptr;
  }

  Handle* NextOf(int power) {
    const auto& items = supply_.OfPower(power);
    size_t& next = next_[static_cast<size_t>(power)];
    for (; next < items.size(); ++next) {
      if (IsPartOf(items[next].block) || taken_.contains(items[next].handle)) continue;
      return items[next].handle;
    }
    return nullptr;
  }

  void Take(Handle* handle) {
    taken_.insert(handle);
    pieces_.push_back({handle->pages, handle});
    filled_ += handle->pages;
  }

  // No more than is lacking: what is over would serve other blocks, and one of these that stays keeps all of it.
  void Create(int64_t lacking) {
    const int64_t pages = std::min(request_.largest_new.count(), PowerAtMost(lacking));
    pieces_.push_back({pages, nullptr});
    filled_ += pages;
    created_ += pages;
  }

  StitchPlan Finish() {
    StitchPlan plan;
    plan.size = request_.size;
    plan.target = place_.run;
    plan.target.count = filled_;
    if (down_) {
      plan.target.first = place_.run.end() - filled_;
      std::reverse(pieces_.begin(), pieces_.end());
    }
    plan.pieces = std::move(pieces_);
    plan.to_create = Pages(created_);
    return plan;
  }

  const StitchPlace& place_;
  const StitchRequest& request_;
  const Supply& supply_;
  const bool down_;
  int64_t filled_ = 0;
  int64_t created_ = 0;
  std::vector<Piece> pieces_;
  absl::flat_hash_set<const Handle*> taken_;
  std::array<size_t, Supply::kPowers> next_ = {};
};

// f(page, piece) for each old view, at its first page inside the target, that is in the way.
template <typename F>
void ForEachInTheWay(const StitchPlan& plan, F&& f) {
  const Handle* latest = nullptr;
  int64_t page = plan.target.first;
  for (const Piece& piece : plan.pieces) {
    for (int64_t part = 0; part < piece.pages; ++part, ++page) {
      const View& view = plan.target.extent->pages().view(page);
      if (view.state == View::State::kNone) {
        latest = nullptr;
        continue;
      }
      const bool as_seen = view.handle == piece.handle && view.part == part && view.accessible;
      if (!as_seen && (view.handle != latest || view.part == 0)) f(page);
      latest = view.handle;
    }
  }
}

int64_t MapsOf(const StitchPlan& plan, const DriverCosts& costs) {
  int64_t nanoseconds = 0;
  int64_t page = plan.target.first;
  for (const Piece& piece : plan.pieces) {
    if (piece.handle != nullptr && !IsSeenAt(*piece.handle, {plan.target.extent, page})) nanoseconds += costs.MapOne();
    page += piece.pages;
  }
  return nanoseconds;
}

int64_t CreationsOf(const StitchPlan& plan, const DriverCosts& costs) {
  int64_t nanoseconds = 0;
  for (const Piece& piece : plan.pieces) {
    if (piece.handle == nullptr) nanoseconds += costs.Create(Pages(piece.pages).bytes()) + costs.MapOne();
  }
  return nanoseconds;
}

Cost CostOf(const StitchPlan& plan, const StitchRequest& request) {
  Cost cost{plan.to_create.count(), request.saves_pages ? plan.target.count : 0,
            MapsOf(plan, request.costs) + CreationsOf(plan, request.costs)};
  ForEachInTheWay(plan, [&](int64_t) { cost.nanoseconds += request.options.unmap_weight * request.costs.unmap; });
  return cost;
}

// Asks the device: only of a plan that is to be taken.
bool IsUsable(const StitchPlan& plan, absl::FunctionRef<bool(PageRef)> may_unmap) {
  bool usable = true;
  ForEachInTheWay(plan, [&](int64_t page) { usable = usable && may_unmap({plan.target.extent, page}); });
  return usable;
}

void FindDonations(const Offers& offers, StitchPlan& plan) {
  std::vector<const Handle*> handles;
  for (const Piece& piece : plan.pieces) {
    if (piece.handle != nullptr) handles.push_back(piece.handle);
  }
  std::sort(handles.begin(), handles.end(),
            [](const Handle* a, const Handle* b) { return a->place.address() > b->place.address(); });
  for (const Handle* handle : handles) {
    Block* const block = offers.BlockOf(*handle);
    std::vector<Donation>& donations = plan.donations;
    if (!donations.empty() && donations.back().block == block &&
        donations.back().run.first == handle->place.page + handle->pages) {
      donations.back().run.first -= handle->pages;
      donations.back().run.count += handle->pages;
    } else {
      donations.push_back({block, RunOf(*handle, handle->place)});
    }
  }
}

// Whether what can be seen in the run is whole handles that live elsewhere.
bool IsSeenWhole(PageRun run) {
  int64_t page = run.first;
  while (page < run.end()) {
    const View& view = run.extent->pages().view(page);
    if (view.state != View::State::kStale || !IsSeenAt(*view.handle, {run.extent, page})) return false;
    page += view.handle->pages;
  }
  return page == run.end();
}

// The plan that takes each handle as it is seen; nullopt: that is not possible.
std::optional<StitchPlan> PlanAsSeen(const StitchPlace& place, Bytes size, const Offers& offers) {
  StitchPlan plan;
  plan.size = size;
  plan.target = place.run;
  absl::flat_hash_set<const Handle*> taken;
  for (int64_t page = place.run.first; page < place.run.end(); page += plan.pieces.back().pages) {
    Handle* const handle = place.run.extent->pages().view(page).handle;
    const Block* const block = offers.BlockOf(*handle);
    if (block == nullptr || block == place.left || block == place.right) return std::nullopt;
    // A handle can have two old views in one place.
    if (!taken.insert(handle).second) return std::nullopt;
    plan.pieces.push_back({handle->pages, handle});
  }
  return plan;
}

// With the largest handle at its end, of which the place needs one page.
Bytes RoomFor(const StitchRequest& request, const Supply& supply) {
  const int64_t largest = std::max(supply.largest(), request.largest_new.count());
  return Pages(PagesCovering(request.size).count() + largest - 1).bytes();
}

}  // namespace

std::optional<StitchPlan> PlanStitchAgain(const Arena& arena, Bytes size, const Offers& offers) {
  std::optional<StitchPlan> again;
  arena.past_stitches().FindOfSize(size, [&](PageRun run) {
    const std::optional<StitchPlace> place = PlaceAt(arena, run, size);
    if (place.has_value() && IsSeenWhole(run)) again = PlanAsSeen(*place, size, offers);
    return again.has_value();
  });
  if (again.has_value()) FindDonations(offers, *again);
  return again;
}

std::optional<StitchPlan> PlanStitch(const Arena& arena, const StitchRequest& request) {
  const Supply supply(request.offers, request.size);
  const Bytes room = RoomFor(request, supply);
  std::vector<std::pair<Cost, StitchPlan>> plans;
  std::vector<StitchPlace> places = FindPlaces(arena, request.size, room, request.offers, request.options.most_edges);
  if (request.offers.pages() > Pages(0)) {
    // Stitches that overwrite each other's views in every iteration would never reach a
    // steady state.
    const std::optional<StitchPlace> untouched = UntouchedPlace(arena, request.size, room);
    if (untouched.has_value()) places.push_back(*untouched);
  }
  for (const StitchPlace& place : places) {
    StitchPlan plan = Filler(place, request, supply).Fill();
    const Cost cost = CostOf(plan, request);
    plans.push_back({cost, std::move(plan)});
  }
  std::stable_sort(plans.begin(), plans.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [cost, plan] : plans) {
    if (!IsUsable(plan, request.may_unmap)) continue;
    FindDonations(request.offers, plan);
    return std::move(plan);
  }
  return PlanStitchApart(arena, request);
}

std::optional<StitchPlan> PlanStitchApart(const Arena& arena, const StitchRequest& request) {
  const Supply supply(request.offers, request.size);
  const std::optional<StitchPlace> untouched = UntouchedPlace(arena, request.size, RoomFor(request, supply));
  if (!untouched.has_value()) return std::nullopt;
  StitchPlan plan = Filler(*untouched, request, supply).Fill();
  FindDonations(request.offers, plan);
  return plan;
}

Bytes RoomApart(const StitchRequest& request) { return RoomFor(request, Supply(request.offers, request.size)); }

}  // namespace frugal
