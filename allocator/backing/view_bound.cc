#include "allocator/backing/view_bound.h"

#include <algorithm>

namespace frugal {
namespace {

// Whether an old view begins at the page, and no handle is to come back to it.
bool IsOldView(const Extent& extent, int64_t page) {
  const View& view = extent.pages().view(page);
  return view.state == View::State::kStale && view.part == 0 && !IsKept(extent, page);
}

}  // namespace

void ViewBound::Keep() {
  const int64_t most = kViewsOfHandle * handles_.counts().handles + kFewViews;
  if (views() <= std::max(most, beyond_)) return;
  const int64_t part = most / kPartThatGoes;
  Reduce(most - part, most - part, nullptr);
  beyond_ = views() > most - part ? views() + part : 0;
}

bool ViewBound::MakePlaces(Arena& arena) {
  const std::vector<Old> old = OldViews(&arena);
  if (old.empty()) return false;
  if (!clocks_.HasPassed(old.front().left_in)) {
    DoWithout(old.front().left_in);
    return true;
  }
  if (arena.extents().size() < kRanges) return false;
  Reduce(0, views() - 1, &arena);
  for (const std::unique_ptr<Extent>& extent : arena.extents()) extent->pages().Forget();
  return true;
}

void ViewBound::MakeRoomForMappings() {
  const int64_t before = views();
  Reduce(before - kMostDropped, before - 1, nullptr);
}

void ViewBound::Reduce(int64_t aim, int64_t enough, const Arena* of) {
  Unmap(aim, of);
  const std::vector<Old> left = OldViews(of);
  if (views() <= enough || left.empty()) return;
  const Era oldest = left.front().left_in;
  if (!clocks_.HasPassed(oldest)) {
    DoWithout(oldest);
    Unmap(aim, of);
  }
  if (views() <= enough) return;
  Wait();
  Unmap(aim, of);
}

void ViewBound::Unmap(int64_t aim, const Arena* of) {
  if (views() <= aim) return;
  for (const Old& old : OldViews(of)) {
    // Those after it were left later.
    if (views() <= aim || !clocks_.HasPassed(old.left_in)) return;
    // Others go on while the driver works.
    const PageRef page = old.page;
    StreamQuestions questions(clocks_, ledger_);
    const bool has_left = questions.Choose([&] {
      return IsOldView(*page.extent, page.page) && page.view().left_in == old.left_in &&
             PageReturns::HasLeft(page, questions);
    });
    if (!has_left) continue;
    // What cannot be unmapped now stays as it is, which harms nobody.
    ledger_.failures().Absorb(handles_.UnmapRun({page.extent, page.page, 1}));
  }
}

std::vector<ViewBound::Old> ViewBound::OldViews(const Arena* of) const {
  std::vector<Old> old;
  for (const Arena* arena : arenas_.mapped()) {
    if (of != nullptr && arena != of) continue;
    for (const std::unique_ptr<Extent>& extent : arena->extents()) {
      for (int64_t page = 0; page < extent->pages().touched(); ++page) {
        if (!IsOldView(*extent, page)) continue;
        old.push_back({{extent.get(), page}, extent->pages().view(page).left_in});
      }
    }
  }
  std::stable_sort(old.begin(), old.end(), [](const Old& a, const Old& b) { return a.left_in < b.left_in; });
  return old;
}

void ViewBound::DoWithout(Era era) {
  if (clocks_.NeedsHost(era)) return Wait();
  clocks_.SetAside(era);
}

void ViewBound::Wait() {
  // Where it fails, or somebody captures, the views stay.
  clocks_.TryWaitForAll();
}

}  // namespace frugal
