#include "allocator/stitching/offers.h"

#include <algorithm>

#include "allocator/port/check.h"

namespace frugal {
namespace {

// The parts of the run whose handles may leave it, from the highest address down: what is vacated then leaves the block
// where it starts.
void AddMovable(Block* block, const PageRun& run, std::vector<Donation>& donations) {
  int64_t end = run.end();
  for (int64_t page = run.end() - 1; page >= run.first - 1; --page) {
    if (page >= run.first) {
      const Handle* const handle = run.extent->pages().view(page).handle;
      FRUGAL_CHECK(handle != nullptr);
      if (!handle->Stays()) continue;
    }
    if (end > page + 1) donations.push_back({block, PageRun{run.extent, page + 1, end - page - 1}});
    end = page;
  }
}

void AddWholeHandles(Block* block, std::vector<Donation>& donations) {
  const PageRun run = OfWholeHandles(block->extent->WholePages(block->address, block->end()));
  if (run.extent->pages().in_place() > 0) [[unlikely]] {
    AddMovable(block, run, donations);
  } else if (run.count > 0) {
    donations.push_back({block, run});
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
    AddWholeHandles(block, donations);
    return true;
  });
  return donations;
}

const std::vector<Donation>& Offers::Find(Pages enough) const {
  if (donors_ == nullptr || enough <= enough_) return found_;
  enough_ = enough;
  found_.clear();
  for (const Arena* donor : *donors_) AddFrom(*donor, enough);
  std::stable_sort(found_.begin(), found_.end(),
                   [](const Donation& a, const Donation& b) { return a.run.count > b.run.count; });
  pages_ = Pages(0);
  for (const Donation& donation : found_) pages_ += Pages(donation.run.count);
  return found_;
}

void Offers::AddFrom(const Arena& donor, Pages enough) const {
  // A place beside two of the blocks cannot take these: the first two, which are the largest, do not count.
  int blocks = 0;
  Pages counted;
  donor.free_blocks().ForEachFromLargest([&](Block* block) {
    if (block->size < kPageSize) return false;
    if (!may_take_(*block)) return true;
    const size_t before = found_.size();
    AddWholeHandles(block, found_);
    if (found_.size() > before && ++blocks > 2) {
      for (size_t i = before; i < found_.size(); ++i) counted += Pages(found_[i].run.count);
    }
    return counted < enough;
  });
}

Block* Offers::BlockOf(const Handle& handle) const {
  if (donors_ == nullptr || handle.place.extent == nullptr || handle.Stays()) return nullptr;
  Block* const block = handle.place.extent->BlockOver(RunOf(handle, handle.place));
  return block != nullptr && block->IsFree() && may_take_(*block) ? block : nullptr;
}

}  // namespace frugal
