#include "tests/shadow/mapped_memory.h"

#include <iterator>

#include "absl/strings/str_format.h"

namespace frugal::shadow {

MappedMemory::Range* MappedMemory::RangeAt(Address address) {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  const auto range = std::prev(after);
  return address < range->first + range->second.size ? &range->second : nullptr;
}

void MappedMemory::Unreserved(Address start) {
  for (const auto& [mapped, view] : views_) {
    if (view.range == &ranges_[start]) verdict_.Fail(absl::StrFormat("unreserved with %#x mapped", mapped.value()));
  }
  ranges_.erase(start);
}

MappedMemory::Views::iterator MappedMemory::ViewAt(Address address) {
  const auto after = views_.upper_bound(address);
  if (after == views_.begin()) return views_.end();
  const auto view = std::prev(after);
  return address < view->first + view->second.size ? view : views_.end();
}

void MappedMemory::Created(uint64_t handle, Bytes size) {
  // Memory is given once.
  if (handles_.contains(handle)) return verdict_.Fail("a handle was created that is held");
  const bool is_large = size > kPageSize;
  handles_[handle] = Handle{size, {{0, GrainsOf(size), 0, {}}}, 0, 0, is_large, {}};
  held_ += size;
  large_.created += is_large;
}

void MappedMemory::Released(uint64_t handle) {
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return verdict_.Fail("a handle was released that is not held");
  if (!it->second.views.empty()) verdict_.Fail("a handle was released that can still be seen");
  held_ -= it->second.size;
  large_.released += it->second.is_large;
  handles_.erase(it);
}

void MappedMemory::AddView(Address start, uint64_t handle, Range* range) {
  Handle& shown = handles_.at(handle);
  const Address end = start + shown.size;
  const auto next = views_.lower_bound(start);
  const bool is_free = ViewAt(start) == views_.end() && (next == views_.end() || end <= next->first);
  if (!is_free) return verdict_.Fail(absl::StrFormat("mapped at %#x, where a handle is mapped", start.value()));
  views_.emplace(start, View{handle, shown.size, range, false, 0, {}});
  large_.moved += shown.is_large && !shown.views.empty();
  shown.views.push_back(start);
}

void MappedMemory::Mapped(Address start, Bytes size, uint64_t handle) {
  Range* const range = RangeAt(start);
  if (range == nullptr || range != RangeAt(start + size - kGrain)) {
    return verdict_.Fail(absl::StrFormat("mapped at %#x, outside of ranges", start.value()));
  }
  const auto held = handles_.find(handle);
  if (held == handles_.end()) return verdict_.Fail("a handle was mapped that is not held");
  if (held->second.size != size) return verdict_.Fail(absl::StrFormat("mapped %#x in part", start.value()));
  AddView(start, handle, range);
}

template <typename Visit>
void MappedMemory::ForEachWhole(const char* call, Address start, Bytes size, Visit visit) {
  for (const Address end = start + size; start < end;) {
    const auto view = views_.find(start);
    if (view == views_.end() && ViewAt(start) == views_.end()) {
      return verdict_.Fail(absl::StrFormat("%s %#x, not mapped", call, start.value()));
    }
    if (view == views_.end() || view->second.size > end - start) {
      return verdict_.Fail(absl::StrFormat("%s %#x, a part of a handle", call, start.value()));
    }
    start = start + view->second.size;
    visit(view);
  }
}

void MappedMemory::AccessSet(Address start, Bytes size) {
  ForEachWhole("access set at", start, size, [](Views::iterator view) { view->second.has_access = true; });
}

void MappedMemory::Unmapped(Address start, Bytes size) {
  ForEachWhole("unmapped", start, size, [this](Views::iterator view) { RemoveView(view); });
}

void MappedMemory::RemoveView(Views::iterator view) {
  auto& [start, gone] = *view;
  if (gone.blocks > 0 && !Loses(start, gone))
    verdict_.Fail(absl::StrFormat("unmapped %#x under a block in use", start.value()));
  if (!order_.IsOver(gone.last_uses)) {
    verdict_.Fail(absl::StrFormat("unmapped %#x while work on it may be outstanding", start.value()));
  }
  if (idle_mark_ != nullptr && !gone.last_uses.IsWithin(*idle_mark_)) {
    verdict_.Fail(absl::StrFormat("unmapped %#x as idle, which was used since the mark", start.value()));
  }
  std::erase(handles_[gone.handle].views, start);
  views_.erase(view);
}

void MappedMemory::SegmentMade(Address start, Bytes size) {
  Reserved(start, size);
  // Nothing can be mapped over its end.
  const uint64_t segment = segments_[start] = next_segment_++;
  handles_[segment] = Handle{size, {{0, GrainsOf(size), 0, {}}}, 0, 0, false, {}};
  held_ += size;
  AddView(start, segment, &ranges_[start]);
  AccessSet(start, size);
}

void MappedMemory::SegmentGone(Address start) {
  const auto segment = segments_.find(start);
  if (segment == segments_.end()) return verdict_.Fail("a segment was freed that is not held");
  Unmapped(start, ranges_[start].size);
  held_ -= ranges_[start].size;
  handles_.erase(segment->second);
  segments_.erase(segment);
  ranges_.erase(start);
}

}  // namespace frugal::shadow
