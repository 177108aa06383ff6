// What MovableBacking does for memory that sleeps: pages lose their memory and get other.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "allocator/backing/movable_backing.h"

namespace frugal {
namespace {

// So many pages in new handles, the largest first.
std::vector<Piece> NewPieces(int64_t pages, int64_t largest) {
  std::vector<Piece> pieces;
  for (; pages > 0; pages -= pieces.back().pages) {
    const auto fits = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(pages)));
    pieces.push_back({std::min(largest, fits)});
  }
  return pieces;
}

}  // namespace

absl::Status MovableBacking::Empty(absl::Span<const PageRun> runs, std::vector<PageRun>& emptied) {
  absl::Status status;
  for (const PageRun& run : runs) {
    const int64_t gone = returns_.TakeAway(run, status);
    if (gone > 0) {
      emptied.push_back({run.extent, run.first, gone});
      run.extent->arena().Emptied(emptied.back());
    }
    if (!status.ok()) break;
  }
  return status;
}

absl::Status MovableBacking::Refill(absl::Span<const PageRun> runs) {
  absl::StatusOr<MemoryInfo> device = memory_limit_.Ask();
  if (!device.ok()) return device.status();
  std::vector<std::vector<Piece>> pieces;
  std::vector<Piece> all;
  for (const PageRun& run : runs) {
    pieces.push_back(NewPieces(run.count, planner_.LargestPiece(run.size(), memory_limit_.Left(*device)).count()));
    all.insert(all.end(), pieces.back().begin(), pieces.back().end());
  }
  absl::StatusOr<Reservation> promised = memory_limit_.Reserve(*device, handles_.LackingFor(all).bytes());
  if (!promised.ok()) return promised.status();
  std::vector<Handle*> created;
  absl::Status status;
  std::vector<PageRun> mapped;
  for (size_t i = 0; i < runs.size() && status.ok(); ++i) {
    status = handles_.CreateLacking(pieces[i], runs[i].extent->arena().group(), *promised, created);
    if (status.ok()) status = handles_.MapPieces(pieces[i], runs[i]);
    if (status.ok()) mapped.push_back(runs[i]);
  }
  promised->Cancel();
  if (!status.ok()) {
    for (const PageRun& run : mapped) status.Update(handles_.UnmapRun(run));
    for (Handle* handle : created) status.Update(handles_.Release(handle));
    return status;
  }
  for (size_t i = 0; i < runs.size(); ++i) EnterRefilled(pieces[i], runs[i]);
  return absl::OkStatus();
}

void MovableBacking::EnterRefilled(absl::Span<const Piece> pieces, PageRun run) {
  int64_t page = run.first;
  for (const Piece& piece : pieces) {
    handles_.Move(piece.handle, PageRef{run.extent, page});
    handles_.Settle(piece.handle);
    // What sleeps there was fixed before.
    handles_.Fix(piece.handle, run.extent->arena().FixesWhatItHandsOut());
    page += piece.pages;
  }
  run.extent->arena().Refilled(run);
}

}  // namespace frugal
