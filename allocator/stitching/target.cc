#include "allocator/stitching/target.h"

#include <vector>

#include "absl/types/span.h"

namespace frugal {
namespace {

// Those that cannot be seen at their pages of the target already.
absl::Status MapTarget(HandleTable& handles, const StitchPlan& plan) {
  std::vector<PageRun> mapped;
  int64_t page = plan.target.first;
  for (size_t i = 0; i < plan.pieces.size();) {
    // The pieces from here on that cannot be seen in place.
    size_t end = i;
    PageRun run{plan.target.extent, page, 0};
    for (; end < plan.pieces.size(); ++end) {
      if (IsSeenAt(*plan.pieces[end].handle, {run.extent, run.end()})) break;
      run.count += plan.pieces[end].pages;
    }
    if (run.count > 0) {
      absl::Status status = handles.MapPieces(absl::MakeConstSpan(plan.pieces).subspan(i, end - i), run);
      if (!status.ok()) {
        // Nothing has used the new views yet, so they can go without waiting for anything.
        for (const PageRun& done : mapped) status.Update(handles.UnmapRun(done));
        return status;
      }
      mapped.push_back(run);
    }
    page = run.end() + (end < plan.pieces.size() ? plan.pieces[end].pages : 0);
    i = end + 1;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeTarget(HandleTable& handles, StitchPlan& plan) {
  std::vector<Handle*> created;
  absl::Status status = handles.CreateLacking(plan.pieces, plan.target.extent->arena().group(), plan.promised, created);
  if (status.ok()) status = MapTarget(handles, plan);
  if (status.ok()) return status;
  for (Handle* handle : created) status.Update(handles.Release(handle));
  return status;
}

}  // namespace frugal
