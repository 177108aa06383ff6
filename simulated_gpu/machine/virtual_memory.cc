#include "simulated_gpu/machine/virtual_memory.h"

#include <iterator>

namespace frugal::sim {
namespace {

bool IsPages(Bytes size) { return size > Bytes(0) && size.count() % kPageSize.count() == 0; }
bool IsPages(Address start, Bytes size) {
  return IsPages(size) && start.value() % static_cast<uint64_t>(kPageSize.count()) == 0;
}
bool IsPowerOfTwo(Bytes size) { return size > Bytes(0) && (size.count() & (size.count() - 1)) == 0; }

}  // namespace

Error VirtualMemory::Begin(CallKind kind, int64_t amount, bool* partial) {
  return supported_ ? parts_.calls.Begin(kind, amount, partial) : Error::kNotSupported;
}

Error VirtualMemory::Reserve(Bytes size, Bytes alignment, Address wish, Address* start) {
  RETURN_IF_ERROR(Begin(CallKind::kReserve));
  if (alignment < kPageSize) alignment = kPageSize;
  if (!IsPages(size) || !IsPowerOfTwo(alignment)) return Error::kInvalidValue;
  const std::optional<Address> found = parts_.addresses.Reserve(size, alignment, wish);
  if (!found) return Error::kOutOfMemory;
  std::lock_guard lock(mutex_);
  reservations_.emplace(*found, size);
  *start = *found;
  return Error::kSuccess;
}

Error VirtualMemory::Unreserve(Address start, Bytes size) {
  RETURN_IF_ERROR(Begin(CallKind::kUnreserve));
  std::lock_guard lock(mutex_);
  const auto reservation = reservations_.find(start);
  if (reservation == reservations_.end() || reservation->second != size) return Error::kInvalidValue;
  const auto mapped = mappings_.lower_bound(start);
  if (mapped != mappings_.end() && mapped->first < start + size) return Error::kInvalidValue;
  reservations_.erase(reservation);
  parts_.addresses.Unreserve(start, size);
  return Error::kSuccess;
}

Error VirtualMemory::Create(int gpu, Bytes size, HandleId* handle) {
  RETURN_IF_ERROR(Begin(CallKind::kCreate, size.count()));
  if (!IsPages(size)) return Error::kInvalidValue;
  if (gpu < 0 || gpu >= static_cast<int>(parts_.memory.size())) return Error::kInvalidDevice;
  const std::optional<FileRange> range = parts_.memory[gpu]->Take(size);
  if (!range) return Error::kOutOfMemory;
  std::lock_guard lock(mutex_);
  *handle = next_handle_++;
  handles_.emplace(*handle, Handle{size, gpu, *range, /*references=*/1, /*views=*/0, false, false});
  return Error::kSuccess;
}

Error VirtualMemory::Release(HandleId handle) {
  RETURN_IF_ERROR(Begin(CallKind::kRelease));
  std::lock_guard lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end() || it->second.references == 0) return Error::kInvalidValue;
  --it->second.references;
  DropIfUnused(it);
  return Error::kSuccess;
}

Error VirtualMemory::Retain(Address address, HandleId* handle) {
  if (!supported_) return Error::kNotSupported;
  std::lock_guard lock(mutex_);
  const auto view = FindAround(address);
  if (view == mappings_.end()) return Error::kInvalidValue;
  *handle = view->second.handle;
  ++handles_.at(*handle).references;
  return Error::kSuccess;
}

Error VirtualMemory::Map(Address start, Bytes size, HandleId handle) {
  RETURN_IF_ERROR(Begin(CallKind::kMap));
  std::lock_guard lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end() || it->second.references == 0 || !IsPages(start, size) || size != it->second.size ||
      !IsReserved(start, size)) {
    return Error::kInvalidValue;
  }
  const auto next = mappings_.lower_bound(start);
  if (next != mappings_.end() && next->first < start + size) return Error::kAlreadyMapped;
  if (next != mappings_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second.size > start) return Error::kAlreadyMapped;
  }
  mappings_.emplace_hint(next, start, Mapping{size, handle});
  const Handle& seen = it->second;
  if (parts_.order != nullptr && seen.imported) {
    parts_.order->MapForeign(start, size);
  } else if (parts_.order != nullptr) {
    parts_.order->Map(start, size, {seen.gpu, seen.range.offset.count()});
  }
  ++it->second.views;
  return Error::kSuccess;
}

Error VirtualMemory::SetAccess(Address start, Bytes size, const std::vector<GpuAccess>& accesses) {
  std::lock_guard lock(mutex_);
  const auto first = FindExact(start, size);
  int64_t views = 0;
  for (auto it = first; it != mappings_.end() && it->first < start + size; ++it) ++views;
  const int64_t mappings = views * static_cast<int64_t>(accesses.size());
  RETURN_IF_ERROR(Begin(CallKind::kSetAccess, mappings));
  if (first == mappings_.end()) return Error::kInvalidValue;
  for (const GpuAccess& wanted : accesses) {
    if (wanted.gpu < 0 || wanted.gpu >= static_cast<int>(parts_.memory.size())) return Error::kInvalidDevice;
  }
  const Address end = start + size;
  RETURN_IF_ERROR(MakePageTables(start, size, accesses));
  const Needs before = NeedsOf(first, end);
  const std::vector<Mapping> mappings_before = Permit(first, end, accesses);
  if (!Exchange(before, NeedsOf(first, end))) {
    Restore(first, mappings_before);
    return Error::kOutOfMemory;
  }
  const Error error = Attach(start, size);
  if (error == Error::kSuccess) return error;
  const Needs refused = NeedsOf(first, end);
  Restore(first, mappings_before);
  (void)Exchange(refused, before);  // What it had, it can have again.
  (void)Attach(start, size);        // What the host showed before, it can show again.
  return error;
}

Error VirtualMemory::MakePageTables(Address start, Bytes size, const std::vector<GpuAccess>& accesses) {
  for (const GpuAccess& wanted : accesses) {
    if (wanted.access == Access::kNone) continue;
    RETURN_IF_ERROR(parts_.driver_memory.MakePageTables(wanted.gpu, start, size));
  }
  return Error::kSuccess;
}

std::vector<VirtualMemory::Mapping> VirtualMemory::Permit(Mappings::iterator first, Address end,
                                                          const std::vector<GpuAccess>& accesses) {
  std::vector<Mapping> before;
  for (auto it = first; it != mappings_.end() && it->first < end; ++it) {
    before.push_back(it->second);
    for (const GpuAccess& wanted : accesses) {
      const uint32_t bit = 1u << wanted.gpu;
      Mapping& mapping = it->second;
      mapping.readers = wanted.access == Access::kNone ? mapping.readers & ~bit : mapping.readers | bit;
      mapping.writers = wanted.access == Access::kReadWrite ? mapping.writers | bit : mapping.writers & ~bit;
    }
  }
  return before;
}

void VirtualMemory::Restore(Mappings::iterator first, const std::vector<Mapping>& before) {
  for (const Mapping& mapping : before) (first++)->second = mapping;
}

VirtualMemory::Needs VirtualMemory::NeedsOf(Mappings::const_iterator first, Address end) const {
  Needs needs;
  for (auto it = first; it != mappings_.end() && it->first < end; ++it) {
    needs.mapped_handles += it->second.mapped_handles();
    needs.host_mappings += it->second.readers != 0 ? 1 : 0;
  }
  return needs;
}

bool VirtualMemory::Exchange(const Needs& before, const Needs& now) {
  const int64_t handles = now.mapped_handles - before.mapped_handles;
  const int64_t hosts = now.host_mappings - before.host_mappings;
  if (handles > 0 && !parts_.mapped_handles.Take(handles)) return false;
  if (hosts > 0 && !parts_.host_mappings.Take(hosts)) {
    if (handles > 0) parts_.mapped_handles.GiveBack(handles);
    return false;
  }
  if (handles < 0) parts_.mapped_handles.GiveBack(-handles);
  if (hosts < 0) parts_.host_mappings.GiveBack(-hosts);
  return true;
}

Error VirtualMemory::GetAccess(Address address, int gpu, Access* access) const {
  if (!supported_) return Error::kNotSupported;
  std::lock_guard lock(mutex_);
  const auto view = FindAround(address);
  if (view == mappings_.end() || gpu < 0 || gpu >= static_cast<int>(parts_.memory.size())) return Error::kInvalidValue;
  const uint32_t bit = 1u << gpu;
  const Mapping& mapping = view->second;
  *access = mapping.writers & bit ? Access::kReadWrite : mapping.readers & bit ? Access::kRead : Access::kNone;
  return Error::kSuccess;
}

Error VirtualMemory::Unmap(Address start, Bytes size) {
  std::lock_guard lock(mutex_);
  const auto first = FindExact(start, size);
  Address end = start + size;
  int64_t views = 0;
  for (auto it = first; it != mappings_.end() && it->first < end; ++it) ++views;
  bool partial = false;
  const Error fault = Begin(CallKind::kUnmap, views, &partial);
  if (fault != Error::kSuccess && !(partial && views > 1)) return fault;
  if (views == 0) return Error::kInvalidValue;
  if (partial) end = std::next(first, views / 2)->first;
  const Error error = Forget(first, end);
  return error != Error::kSuccess ? error : fault;
}

Error VirtualMemory::Forget(Mappings::iterator first, Address end) {
  const Address start = first->first;
  bool backed = false;
  for (auto it = first; it != mappings_.end() && it->first < end; ++it) {
    backed = backed || (it->second.host_access() != Access::kNone && handles_.at(it->second.handle).range.file);
  }
  NoteIfBusy(first, end);
  if (backed) {
    RETURN_IF_ERROR(parts_.addresses.Detach(start, end - start));
  }
  if (parts_.order != nullptr) parts_.order->Unmap(start, end - start);
  (void)Exchange(NeedsOf(first, end), Needs());  // Giving back cannot fail.
  for (auto it = first; it != mappings_.end() && it->first < end;) {
    const auto handle = handles_.find(it->second.handle);
    it = mappings_.erase(it);
    --handle->second.views;
    DropIfUnused(handle);
  }
  return Error::kSuccess;
}

Error VirtualMemory::Export(HandleId handle, int* fd) {
  RETURN_IF_ERROR(Begin(CallKind::kIpc));
  std::lock_guard lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return Error::kInvalidValue;
  if (!it->second.range.file) return Error::kNotSupported;
  *fd = SharedRange{it->second.range, it->second.size, it->second.gpu}.ToDescriptor();
  if (*fd < 0) return Error::kUnknown;
  it->second.exported = true;
  return Error::kSuccess;
}

Error VirtualMemory::Import(int fd, HandleId* handle) {
  RETURN_IF_ERROR(Begin(CallKind::kIpc));
  std::optional<SharedRange> shared = SharedRange::FromDescriptor(fd);
  if (!shared) return Error::kInvalidValue;
  std::lock_guard lock(mutex_);
  // One descriptor for each file, not for each handle.
  for (const auto& [id, other] : handles_) {
    if (other.range.file && other.range.file->inode() == shared->range.file->inode()) {
      shared->range.file = other.range.file;
      break;
    }
  }
  const int gpu = shared->gpu < static_cast<int>(parts_.memory.size()) ? shared->gpu : 0;
  *handle = next_handle_++;
  handles_.emplace(*handle, Handle{shared->size, gpu, shared->range, /*references=*/1, /*views=*/0, false,
                                   /*imported=*/true});
  return Error::kSuccess;
}

Error VirtualMemory::Describe(HandleId handle, Bytes* size, int* gpu) const {
  if (!supported_) return Error::kNotSupported;
  std::lock_guard lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return Error::kInvalidValue;
  *size = it->second.size;
  *gpu = it->second.gpu;
  return Error::kSuccess;
}

std::optional<VirtualMemory::View> VirtualMemory::Find(Address address) const {
  std::lock_guard lock(mutex_);
  const auto it = FindAround(address);
  if (it == mappings_.end()) return std::nullopt;
  return View{it->first, it->second.size, it->second.handle, handles_.at(it->second.handle).gpu};
}

bool VirtualMemory::IsReserved(Address start, Bytes size) const {
  auto it = reservations_.upper_bound(start);
  if (it == reservations_.begin()) return false;
  --it;
  return start + size <= it->first + it->second;
}

VirtualMemory::Mappings::iterator VirtualMemory::FindExact(Address start, Bytes size) {
  const auto first = mappings_.find(start);
  Address reached = start;
  auto it = first;
  for (; it != mappings_.end() && it->first == reached && reached < start + size; ++it)
    reached = reached + it->second.size;
  const bool fills = size > Bytes(0) && reached == start + size;
  return fills && IsReserved(start, size) ? first : mappings_.end();
}

VirtualMemory::Mappings::const_iterator VirtualMemory::FindAround(Address address) const {
  auto it = mappings_.upper_bound(address);
  if (it == mappings_.begin()) return mappings_.end();
  --it;
  return address < it->first + it->second.size ? it : mappings_.end();
}

Error VirtualMemory::Attach(Address start, Bytes size) {
  auto it = mappings_.find(start);
  while (it != mappings_.end() && it->first < start + size) {
    // As many mappings at once as lie side by side in the file.
    const Address run_start = it->first;
    const FileRange range = handles_.at(it->second.handle).range;
    const Access access = it->second.host_access();
    Bytes run;
    for (; it != mappings_.end() && it->first < start + size; ++it) {
      const FileRange& next = handles_.at(it->second.handle).range;
      if (next.file != range.file || next.offset != range.offset + run || it->second.host_access() != access) break;
      run += it->second.size;
    }
    RETURN_IF_ERROR(parts_.addresses.Attach(run_start, run, range, access));
  }
  return Error::kSuccess;
}

void VirtualMemory::DropIfUnused(std::unordered_map<HandleId, Handle>::iterator it) {
  const Handle& handle = it->second;
  if (handle.references > 0 || handle.views > 0) return;
  if (!handle.imported) {
    if (parts_.order != nullptr) parts_.order->GiveBack({handle.gpu, handle.range.offset.count()}, handle.size);
    parts_.memory[handle.gpu]->GiveBack(handle.range, handle.size, handle.exported);
  }
  handles_.erase(it);
}

void VirtualMemory::NoteIfBusy(Mappings::const_iterator first, Address end) {
  for (auto it = first; it != mappings_.end() && it->first < end; ++it) {
    if (!parts_.is_busy(handles_.at(it->second.handle).gpu)) continue;
    parts_.calls.Note(CallKind::kUnmapWhileBusy);
    return;
  }
}

}  // namespace frugal::sim
