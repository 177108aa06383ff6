#include "allocator/side_extent.h"

#include "allocator/handle_table.h"

namespace frugal {

PageRun SideExtent::Next(int64_t pages) const {
  if (extent_ == nullptr) return PageRun{};
  int64_t first = Find(next_page_, pages);
  if (first < 0) first = Find(0, pages);
  return first < 0 ? PageRun{} : PageRun{extent_, first, pages};
}

void SideExtent::Use(PageRun run) {
  // Not what is stitched once more where it was before.
  if (run.extent == extent_ && run == Next(run.count)) next_page_ = run.end();
}

int64_t SideExtent::Find(int64_t from, int64_t pages) const {
  int64_t first = from;
  for (int64_t page = from; first + pages <= extent_->pages(); ++page) {
    if (page == first + pages || page >= extent_->touched()) return first;
    if (extent_->view(page).state == View::State::kLive || IsKept(*extent_, page)) first = page + 1;
  }
  return -1;
}

}  // namespace frugal
