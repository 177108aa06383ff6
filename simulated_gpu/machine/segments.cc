#include "simulated_gpu/machine/segments.h"

namespace frugal::sim {

Error Segments::Malloc(int gpu, Bytes size, Kind kind, Address* start) {
  *start = Address();
  RETURN_IF_ERROR(parts_.calls.Begin(CallKind::kMalloc, size.count()));
  if (size == Bytes(0)) return Error::kSuccess;
  size = PagesCovering(size).bytes();
  const std::optional<FileRange> range = parts_.memory[gpu]->Take(size);
  if (!range) return Error::kOutOfMemory;
  const Error error = Place({Address(), size, gpu, kind, *range, /*exported=*/false}, start);
  if (error != Error::kSuccess) parts_.memory[gpu]->GiveBack(*range, size, /*shared=*/false);
  return error;
}

Error Segments::Place(Segment segment, Address* start) {
  std::lock_guard lock(mutex_);
  // The peers that are let in map it, too.
  segment.mapped_handles = 1 + (segment.kind == Kind::kDevice ? parts_.peers.CountInto(segment.gpu) : 0);
  if (!parts_.mapped_handles.Take(segment.mapped_handles)) return Error::kOutOfMemory;
  Error error = Error::kOutOfMemory;
  if (parts_.host_mappings.Take(1)) {
    if (const std::optional<Address> found = parts_.addresses.Reserve(segment.size, kPageSize, Address())) {
      error = PlaceAt(*found, segment);
      if (error == Error::kSuccess) {
        *start = *found;
        return error;
      }
      parts_.addresses.Unreserve(*found, segment.size);
    }
    parts_.host_mappings.GiveBack(1);
  }
  parts_.mapped_handles.GiveBack(segment.mapped_handles);
  return error;
}

Error Segments::PlaceAt(Address start, const Segment& segment) {
  const Error error = parts_.addresses.Attach(start, segment.size, segment.range, AddressSpace::Access::kReadWrite);
  if (error != Error::kSuccess) return error;
  segments_.emplace(start, segment).first->second.start = start;
  if (parts_.order != nullptr && segment.kind == Kind::kImported) {
    parts_.order->MapForeign(start, segment.size);
  } else if (parts_.order != nullptr) {
    parts_.order->Map(start, segment.size, {segment.gpu, segment.range.offset.count()});
  }
  return Error::kSuccess;
}

Error Segments::Free(Address start) {
  RETURN_IF_ERROR(parts_.calls.Begin(CallKind::kFree));
  if (start == Address()) return Error::kSuccess;
  std::lock_guard lock(mutex_);
  const auto it = segments_.find(start);
  if (it == segments_.end() || it->second.kind == Kind::kImported) return Error::kInvalidValue;
  return Remove(it);
}

Error Segments::OpenImported(const SharedRange& shared, Address* start) {
  RETURN_IF_ERROR(parts_.calls.Begin(CallKind::kIpc));
  const int gpu = shared.gpu < static_cast<int>(parts_.memory.size()) ? shared.gpu : 0;
  return Place({Address(), shared.size, gpu, Kind::kImported, shared.range, /*exported=*/false}, start);
}

Error Segments::CloseImported(Address start) {
  RETURN_IF_ERROR(parts_.calls.Begin(CallKind::kIpc));
  std::lock_guard lock(mutex_);
  const auto it = segments_.find(start);
  if (it == segments_.end() || it->second.kind != Kind::kImported) return Error::kInvalidValue;
  return Remove(it);
}

Error Segments::Remove(ByStart::iterator it) {
  const Segment& segment = it->second;
  if (segment.range.file) {
    RETURN_IF_ERROR(parts_.addresses.Detach(segment.start, segment.size));
  }
  if (parts_.order != nullptr) {
    parts_.order->Unmap(segment.start, segment.size);
    if (segment.kind != Kind::kImported) {
      parts_.order->GiveBack({segment.gpu, segment.range.offset.count()}, segment.size);
    }
  }
  parts_.mapped_handles.GiveBack(segment.mapped_handles);
  parts_.host_mappings.GiveBack(1);
  parts_.addresses.Unreserve(segment.start, segment.size);
  if (segment.kind != Kind::kImported)
    parts_.memory[segment.gpu]->GiveBack(segment.range, segment.size, segment.exported);
  segments_.erase(it);
  return Error::kSuccess;
}

Error Segments::Export(Address address, SharedRange* shared) {
  RETURN_IF_ERROR(parts_.calls.Begin(CallKind::kIpc));
  std::lock_guard lock(mutex_);
  const auto around = FindAround(address);
  if (around == segments_.end() || around->second.kind == Kind::kImported) return Error::kInvalidValue;
  Segment& segment = segments_.at(around->first);
  if (!segment.range.file) return Error::kNotSupported;
  segment.exported = true;
  *shared = SharedRange{segment.range, segment.size, segment.gpu};
  return Error::kSuccess;
}

Error Segments::EnablePeer(int gpu, int peer) {
  std::lock_guard lock(mutex_);
  std::vector<Segment*> reached;
  for (auto& [start, segment] : segments_) {
    if (segment.gpu == peer && segment.kind == Kind::kDevice) reached.push_back(&segment);
  }
  const auto count = static_cast<int64_t>(reached.size());
  RETURN_IF_ERROR(parts_.calls.Begin(CallKind::kPeerAccess, count));
  if (!parts_.mapped_handles.Take(count)) return Error::kOutOfMemory;
  if (const Error error = parts_.peers.Enable(gpu, peer); error != Error::kSuccess) {
    parts_.mapped_handles.GiveBack(count);
    return error;
  }
  for (Segment* segment : reached) ++segment->mapped_handles;
  return Error::kSuccess;
}

Error Segments::DisablePeer(int gpu, int peer) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(parts_.peers.Disable(gpu, peer));
  for (auto& [start, segment] : segments_) {
    if (segment.gpu != peer || segment.kind != Kind::kDevice) continue;
    --segment.mapped_handles;
    parts_.mapped_handles.GiveBack(1);
  }
  return Error::kSuccess;
}

std::optional<Segments::Segment> Segments::Find(Address address) const {
  std::lock_guard lock(mutex_);
  const auto it = FindAround(address);
  if (it == segments_.end()) return std::nullopt;
  return it->second;
}

Bytes Segments::managed(int gpu) const {
  std::lock_guard lock(mutex_);
  Bytes sum;
  for (const auto& [start, segment] : segments_) {
    if (segment.gpu == gpu && segment.kind == Kind::kManaged) sum += segment.size;
  }
  return sum;
}

Segments::ByStart::const_iterator Segments::FindAround(Address address) const {
  auto it = segments_.upper_bound(address);
  if (it == segments_.begin()) return segments_.end();
  --it;
  return address < it->first + it->second.size ? it : segments_.end();
}

}  // namespace frugal::sim
