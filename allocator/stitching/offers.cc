#include "allocator/stitching/offers.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace frugal {
namespace {

bool Holds(const Donation& donation, const PageRef& place) {
  return donation.run.extent == place.extent && donation.run.first <= place.page && place.page < donation.run.end();
}

// The parts of the run whose handles may leave it, from the highest address down: what is vacated then leaves the block
// where it starts.
void AddMovable(Block* block, const PageRun& run, std::vector<Donation>& donations) {
  int64_t end = run.end();
  for (int64_t page = run.end() - 1; page >= run.first - 1; --page) {
    if (page >= run.first && run.extent->pages().view(page).handle->keepers == 0) continue;
    if (end > page + 1) donations.push_back({block, PageRun{run.extent, page + 1, end - page - 1}});
    end = page;
  }
}

}  // namespace

PageRun OfWholeHandles(PageRun run) {
  while (run.count > 0) {
    const PageRef start = StartOfView({run.extent, run.first});
    if (start.page == run.first) break;
    const int64_t next = start.page + run.extent->pages().view(run.first).handle->pages;
    run.count = std::max<int64_t>(0, run.end() - next);
    run.first = next;
  }
  while (run.count > 0) {
    const PageRef start = StartOfView({run.extent, run.end() - 1});
    if (start.page + run.extent->pages().view(start.page).handle->pages == run.end()) break;
    run.count = std::max<int64_t>(0, start.page - run.first);
  }
  return run;
}

std::vector<Donation> WholeFreeHandles(const Arena& arena) {
  std::vector<Donation> donations;
  arena.free_blocks().ForEachFromLargest([&donations](Block* block) {
    if (block->size < kPageSize) return false;
    const PageRun run = OfWholeHandles(block->extent->WholePages(block->address, block->end()));
    if (run.extent->pages().in_place() > 0) [[unlikely]] {
      AddMovable(block, run, donations);
    } else if (run.count > 0) {
      donations.push_back({block, run});
    }
    return true;
  });
  return donations;
}

Offers::Offers(std::vector<Donation> donations) : from_largest_(std::move(donations)), by_address_(from_largest_) {
  std::stable_sort(from_largest_.begin(), from_largest_.end(),
                   [](const Donation& a, const Donation& b) { return a.run.count > b.run.count; });
  std::sort(by_address_.begin(), by_address_.end(),
            [](const Donation& a, const Donation& b) { return a.start() < b.start(); });
  for (const Donation& donation : by_address_) pages_ += Pages(donation.run.count);
}

const Donation* Offers::Find(const Handle& handle) const {
  const PageRef& place = handle.place;
  if (place.extent == nullptr) return nullptr;
  if (latest_ != nullptr && Holds(*latest_, place)) return latest_;
  auto after = std::upper_bound(by_address_.begin(), by_address_.end(), place.address(),
                                [](Address address, const Donation& donation) { return address < donation.start(); });
  if (after == by_address_.begin() || !Holds(*std::prev(after), place)) return nullptr;
  latest_ = &*std::prev(after);
  return latest_;
}

}  // namespace frugal
