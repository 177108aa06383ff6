#include "cuda/simulated/segments.h"

#include "cuda/simulated/latency_model.h"

namespace frugal::sim {

Error Segments::Malloc(int gpu, Bytes size, Kind kind, Address* start) {
  *start = Address();
  if (const Error fault = calls_.Begin(CallKind::kMalloc, LatencyModel::Malloc(size)); fault != Error::kSuccess) {
    return fault;
  }
  if (size == Bytes(0)) return Error::kSuccess;
  size = PagesCovering(size).bytes();
  const std::optional<FileRange> range = memory_[gpu]->Take(size);
  if (!range) return Error::kOutOfMemory;
  const Error error = Place({Address(), size, gpu, kind, *range, /*exported=*/false}, start);
  if (error != Error::kSuccess) memory_[gpu]->GiveBack(*range, size, /*shared=*/false);
  return error;
}

Error Segments::Place(Segment segment, Address* start) {
  const std::optional<Address> found = addresses_.Reserve(segment.size, kPageSize, Address());
  if (!found) return Error::kOutOfMemory;
  const Error error = addresses_.Attach(*found, segment.size, segment.range, AddressSpace::Access::kReadWrite);
  if (error != Error::kSuccess) {
    addresses_.Unreserve(*found, segment.size);
    return error;
  }
  segment.start = *found;
  std::lock_guard lock(mutex_);
  segments_.emplace(segment.start, segment);
  if (order_ != nullptr && segment.kind == Kind::kImported) {
    order_->MapForeign(segment.start, segment.size);
  } else if (order_ != nullptr) {
    order_->Map(segment.start, segment.size, {segment.gpu, segment.range.offset.count()});
  }
  *start = segment.start;
  return Error::kSuccess;
}

Error Segments::Free(Address start) {
  if (const Error fault = calls_.Begin(CallKind::kFree, LatencyModel::Free()); fault != Error::kSuccess) return fault;
  if (start == Address()) return Error::kSuccess;
  std::lock_guard lock(mutex_);
  const auto it = segments_.find(start);
  if (it == segments_.end() || it->second.kind == Kind::kImported) return Error::kInvalidValue;
  return Remove(it);
}

Error Segments::OpenImported(const SharedRange& shared, Address* start) {
  if (const Error fault = calls_.Begin(CallKind::kIpc, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  const int gpu = shared.gpu < static_cast<int>(memory_.size()) ? shared.gpu : 0;
  return Place({Address(), shared.size, gpu, Kind::kImported, shared.range, /*exported=*/false}, start);
}

Error Segments::CloseImported(Address start) {
  if (const Error fault = calls_.Begin(CallKind::kIpc, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  std::lock_guard lock(mutex_);
  const auto it = segments_.find(start);
  if (it == segments_.end() || it->second.kind != Kind::kImported) return Error::kInvalidValue;
  return Remove(it);
}

Error Segments::Remove(ByStart::iterator it) {
  const Segment& segment = it->second;
  if (segment.range.file) {
    if (const Error error = addresses_.Detach(segment.start, segment.size); error != Error::kSuccess) return error;
  }
  if (order_ != nullptr) {
    order_->Unmap(segment.start, segment.size);
    if (segment.kind != Kind::kImported) {
      order_->GiveBack({segment.gpu, segment.range.offset.count()}, segment.size);
    }
  }
  addresses_.Unreserve(segment.start, segment.size);
  if (segment.kind != Kind::kImported) memory_[segment.gpu]->GiveBack(segment.range, segment.size, segment.exported);
  segments_.erase(it);
  return Error::kSuccess;
}

Error Segments::Export(Address address, SharedRange* shared) {
  if (const Error fault = calls_.Begin(CallKind::kIpc, LatencyModel::Uncharged()); fault != Error::kSuccess) {
    return fault;
  }
  std::lock_guard lock(mutex_);
  const auto around = FindAround(address);
  if (around == segments_.end() || around->second.kind == Kind::kImported) return Error::kInvalidValue;
  Segment& segment = segments_.at(around->first);
  if (!segment.range.file) return Error::kNotSupported;
  segment.exported = true;
  *shared = SharedRange{segment.range, segment.size, segment.gpu};
  return Error::kSuccess;
}

std::optional<Segments::Segment> Segments::Find(Address address) const {
  std::lock_guard lock(mutex_);
  const auto it = FindAround(address);
  if (it == segments_.end()) return std::nullopt;
  return it->second;
}

Segments::ByStart::const_iterator Segments::FindAround(Address address) const {
  auto it = segments_.upper_bound(address);
  if (it == segments_.begin()) return segments_.end();
  --it;
  return address < it->first + it->second.size ? it : segments_.end();
}

}  // namespace frugal::sim
