#include "tests/shadow/memory_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace frugal::shadow {

template <typename Visit>
void MemoryModel::ForEachPart(uint32_t block, Address start, Bytes size, Visit visit) {
  for (const Address end = start + size; start < end;) {
    const auto view = ViewAt(start);
    if (view == views_.end()) {
      return verdict_.Fail(absl::StrFormat("#%d lies at %#x, where nothing is mapped", block, start.value()));
    }
    const Address past = std::min(end, view->first + view->second.size);
    visit(view->second, GrainsOf(start - view->first), GrainsOf(past - view->first));
    start = past;
  }
}

void MemoryModel::HandOut(uint32_t block, Address start, Bytes size, Stream stream) {
  ForEachPart(block, start, size, [&](View& view, uint32_t begin, uint32_t end) {
    if (!view.has_access) verdict_.Fail(absl::StrFormat("#%d has a page without access", block));
    Handle& handle = handles_[view.handle];
    CheckFree(handle, begin, end, block, stream);
    Replace(handle.pieces, {begin, end, block, {}});
    handle.grains_in_use += end - begin;
    large_.shared += ++handle.blocks > 1 && handle.is_large;
    ++view.blocks;
    view.range->stream = stream;
  });
}

void MemoryModel::TakeBack(uint32_t block, Address start, Bytes size, const Positions& uses) {
  ForEachPart(block, start, size, [&](View& view, uint32_t begin, uint32_t end) {
    Handle& handle = handles_[view.handle];
    Piece& piece = handle.pieces[PieceAt(handle.pieces, begin)];
    if (piece.block != block || piece.begin != begin || piece.end != end) {
      return verdict_.Fail(absl::StrFormat("#%d did not keep its bytes", block));
    }
    piece.block = 0;
    piece.last_uses = uses;
    Merge(handle.pieces, begin);
    handle.grains_in_use -= end - begin;
    --handle.blocks;
    --view.blocks;
    view.last_uses.Raise(uses);
  });
}

void MemoryModel::CheckFree(const Handle& handle, uint32_t begin, uint32_t end, uint32_t block, Stream stream) {
  for (size_t i = PieceAt(handle.pieces, begin); i < handle.pieces.size() && handle.pieces[i].begin < end; ++i) {
    const Piece& piece = handle.pieces[i];
    if (piece.block != 0) {
      verdict_.Fail(absl::StrFormat("#%d was handed out with bytes of #%d, which is in use", block, piece.block));
    }
    if (!order_.IsAfter(stream, piece.last_uses)) {
      verdict_.Fail(absl::StrFormat(
          "#%d was handed out on stream %d with bytes that other work may still use: nothing orders the two", block,
          stream.id));
    }
  }
}

size_t MemoryModel::PieceAt(const std::vector<Piece>& pieces, uint32_t grain) {
  const auto after = std::upper_bound(pieces.begin(), pieces.end(), grain,
                                      [](uint32_t wanted, const Piece& piece) { return wanted < piece.begin; });
  return static_cast<size_t>(after - pieces.begin()) - 1;
}

void MemoryModel::Replace(std::vector<Piece>& pieces, Piece one) {
  const size_t first = PieceAt(pieces, one.begin);
  size_t past = first;
  while (past < pieces.size() && pieces[past].begin < one.end) ++past;
  std::array<Piece, 3> parts;
  size_t count = 0;
  if (pieces[first].begin < one.begin)
    parts[count++] = {pieces[first].begin, one.begin, pieces[first].block, pieces[first].last_uses};
  parts[count++] = one;
  const Piece& last = pieces[past - 1];
  if (last.end > one.end) parts[count++] = {one.end, last.end, last.block, last.last_uses};
  const size_t replaced = past - first;
  const auto at = pieces.begin() + static_cast<std::ptrdiff_t>(first);
  const size_t copied = std::min(replaced, count);
  std::copy(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(copied), at);
  if (count > replaced) {
    pieces.insert(at + static_cast<std::ptrdiff_t>(copied), parts.begin() + static_cast<std::ptrdiff_t>(copied),
                  parts.begin() + static_cast<std::ptrdiff_t>(count));
  } else {
    pieces.erase(at + static_cast<std::ptrdiff_t>(copied), at + static_cast<std::ptrdiff_t>(replaced));
  }
}

// Joins the piece with free neighbours that have the same last uses, so that pieces do not grow in number for ever.
// What the host knows to be over counts as never used.
void MemoryModel::Merge(std::vector<Piece>& pieces, uint32_t begin) {
  size_t i = PieceAt(pieces, begin);
  const auto simplify = [this, &pieces](size_t piece) {
    if (order_.IsOver(pieces[piece].last_uses)) pieces[piece].last_uses = {};
  };
  const auto alike = [&pieces](size_t left) {
    return pieces[left].block == 0 && pieces[left + 1].block == 0 &&
           pieces[left].last_uses == pieces[left + 1].last_uses;
  };
  const auto join = [&pieces](size_t left) {
    pieces[left].end = pieces[left + 1].end;
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(left) + 1);
  };
  for (size_t piece = i == 0 ? 0 : i - 1; piece <= i + 1 && piece < pieces.size(); ++piece) simplify(piece);
  if (i + 1 < pieces.size() && alike(i)) join(i);
  if (i > 0 && alike(i - 1)) join(i - 1);
}

void MemoryModel::AddParts(Address start, Bytes size, uint32_t block, Parts& parts) {
  for (const Address end = start + size; start < end;) {
    const Bytes in_page(static_cast<int64_t>(start.value() % static_cast<uint64_t>(kPageSize.count())));
    const Bytes part = std::min(kPageSize - in_page, end - start);
    parts.push_back({start, part, block});
    start = start + part;
  }
}

MemoryModel::Parts MemoryModel::Under(const absl::flat_hash_set<uint32_t>& goes) const {
  Parts parts;
  for (const auto& [start, view] : views_) {
    if (view.blocks == 0 || segments_.contains(start)) continue;
    const std::vector<Piece>& pieces = handles_.at(view.handle).pieces;
    const auto stays = [&](const Piece& piece) { return piece.block != 0 && !goes.contains(piece.block); };
    if (std::any_of(pieces.begin(), pieces.end(), stays)) continue;
    for (const Piece& piece : pieces) {
      if (piece.block == 0) continue;
      AddParts(start + kGrain * piece.begin, kGrain * (piece.end - piece.begin), piece.block, parts);
    }
  }
  return parts;
}

bool MemoryModel::Loses(Address start, View& view) {
  Handle& handle = handles_[view.handle];
  Parts lost;
  for (const Piece& piece : handle.pieces) {
    if (piece.block == 0) continue;
    AddParts(start + kGrain * piece.begin, kGrain * (piece.end - piece.begin), piece.block, lost);
  }
  if (!std::includes(may_go_.begin(), may_go_.end(), lost.begin(), lost.end())) return false;
  gone_.insert(gone_.end(), lost.begin(), lost.end());
  std::sort(gone_.begin(), gone_.end());
  handle.pieces = {{0, GrainsOf(handle.size), 0, {}}};
  handle.grains_in_use = handle.blocks = view.blocks = 0;
  return true;
}

bool MemoryModel::MayMove(const Handle& handle, Stream stream, const Captured& captured) const {
  const bool waits = !captured[stream.id - 1];  // Who is being captured can wait for nobody.
  // What is seen in the ranges of a captured stream cannot be waited for.
  for (const Address& start : handle.views) {
    const Stream owner = views_.at(start).range->stream;
    if (owner != stream && (owner.id == 0 || captured[owner.id - 1] || !waits)) return false;
  }
  Captured unreachable;
  for (size_t i = 0; i < kStreams; ++i) unreachable[i] = i + 1 != stream.id && (captured[i] || !waits);
  return !IsUsedBy(unreachable, handle);
}

bool MemoryModel::IsUsedBy(const Captured& streams, const Handle& handle) const {
  Positions uses;
  for (const Piece& piece : handle.pieces) uses.Raise(piece.last_uses);
  for (size_t i = 0; i < kStreams; ++i) {
    if (!streams[i]) uses.of[i] = 0;
  }
  return !order_.IsOver(uses);
}

Pages MemoryModel::FreePages(Stream stream, const Captured& captured) const {
  Bytes free;
  for (const auto& [id, handle] : handles_) {
    if (handle.grains_in_use == 0 && MayMove(handle, stream, captured)) free += handle.size;
  }
  return PagesCovering(free);
}

Pages MemoryModel::UnusedPages() const {
  Bytes unused;
  for (const auto& [id, handle] : handles_) {
    if (handle.grains_in_use == 0) unused += handle.size;
  }
  return PagesCovering(unused);
}

Bytes MemoryModel::UnusedSegments(const Captured& captured) const {
  Bytes unused;
  for (const auto& [start, segment] : segments_) {
    const Handle& handle = handles_.at(segment);
    if (handle.grains_in_use == 0 && !IsUsedBy(captured, handle)) unused += handle.size;
  }
  return unused;
}

}  // namespace frugal::shadow
