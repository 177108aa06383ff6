#include "cuda/host_copies.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "cuda/driver_scope.h"
#include "cuda/second_try.h"

namespace frugal {
namespace {

size_t ToDriver(Bytes size) { return static_cast<size_t>(size.count()); }

// The first of what is mapped by address that ends behind `address`.
template <typename Map>
auto FirstBehind(Map& copies, Address address) {
  auto found = copies.upper_bound(address);
  if (found != copies.begin() && std::prev(found)->first + std::prev(found)->second.size > address) --found;
  return found;
}

}  // namespace

HostCopies::HostCopies(const DriverApi& api, CUcontext context, DriverTimes& times, UnifiedMemory::FileReader read)
    : api_(api), context_(context), times_(times), pool_(api, std::move(read)), ring_(api, times) {}

HostCopies::~HostCopies() {
  KeepOnly({});
  static_cast<void>(Trim());
}

template <typename Call>
absl::Status HostCopies::InDriver(Call call) {
  const DriverScope scope(api_, context_);
  return scope.status().ok() ? call() : scope.status();
}

absl::Status HostCopies::MakeStream() {
  if (stream_ != nullptr) return absl::OkStatus();
  return api_.ToStatus(api_.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

absl::Status HostCopies::Wait() {
  const DriverTimes::Stopwatch stopwatch(times_, DriverCall::sync);
  return api_.ToStatus(api_.StreamSynchronize(stream_), "cuStreamSynchronize");
}

template <typename Enqueue>
absl::Status HostCopies::OnStream(Enqueue enqueue) {
  return InDriver([&] {
    absl::Status status = MakeStream();
    if (!status.ok()) return status;
    status = enqueue();
    // What the GPU has begun ends before anybody uses the memory again.
    status.Update(MakeUpForOneFailure([&] { return Wait(); }));
    ring_.Land();
    return status;
  });
}

absl::Status HostCopies::Reserve(Ranges ranges, Kind kind) {
  Bytes size;
  for (const AddressRange& range : ranges) size += range.size;
  return InDriver([&] {
    absl::Status status = MakeStream();
    if (status.ok() && kind == Kind::kPageable) status = ring_.Make();
    if (status.ok()) status = pool_.Grow(size, kind);
    if (status.ok()) kind_ = kind;
    if (!status.ok()) static_cast<void>(TrimInDriver());
    return status;
  });
}

absl::Status HostCopies::CopyOut(Ranges ranges) {
  for (const AddressRange& range : ranges) Forget(range.address, range.address + range.size);
  std::vector<Piece> pieces;
  for (const AddressRange& range : ranges) {
    for (Bytes done; done < range.size;) {
      const AddressRange host = pool_.Take(kind_, range.size - done);
      if (host.size == Bytes(0)) {
        Drop(ranges);
        return absl::FailedPreconditionError("no host memory was reserved for these copies");
      }
      pieces.push_back({range.address + done, host.address, host.size});
      copies_[pieces.back().device] = {host.size, host.address};
      done += host.size;
    }
  }
  absl::Status status = Transfer(pieces, Way::kOut);
  if (!status.ok()) Drop(ranges);
  return status;
}

std::vector<HostCopies::Piece> HostCopies::CopiesOf(Ranges ranges) const {
  std::vector<Piece> pieces;
  for (const AddressRange& range : ranges) {
    const Address end = range.address + range.size;
    for (auto copy = FirstBehind(copies_, range.address); copy != copies_.end() && copy->first < end; ++copy) {
      const Address from = std::max(copy->first, range.address);
      const Bytes size = std::min(copy->first + copy->second.size, end) - from;
      pieces.push_back({from, copy->second.host + (from - copy->first), size});
    }
  }
  return pieces;
}

absl::StatusOr<Bytes> HostCopies::CopyIn(Ranges ranges) {
  const std::vector<Piece> pieces = CopiesOf(ranges);
  Bytes copied;
  for (const Piece& piece : pieces) copied += piece.size;
  if (pieces.empty()) return copied;
  if (absl::Status status = Transfer(pieces, Way::kIn); !status.ok()) return status;
  return copied;
}

Bytes HostCopies::Read(AddressRange range, char* to) const {
  Bytes read;
  for (const Piece& piece : CopiesOf({range})) {
    std::memcpy(to + ToDriver(piece.device - range.address), piece.host.pointer(), ToDriver(piece.size));
    read += piece.size;
  }
  return read;
}

bool HostCopies::Covers(AddressRange range) const {
  for (const Piece& piece : CopiesOf({range})) range.size -= piece.size;
  return range.size == Bytes(0);
}

absl::Status HostCopies::Transfer(const std::vector<Piece>& pieces, Way way) {
  return OnStream([&] {
    for (const Piece& piece : pieces) {
      const bool pageable = pool_.KindOf(piece.host) == Kind::kPageable;
      absl::Status status;
      if (pageable && way == Way::kOut) {
        status = ring_.CopyOut(piece.device, piece.host, piece.size, stream_);
      } else if (pageable) {
        status = ring_.CopyIn(piece.device, piece.host, piece.size, stream_);
      } else if (way == Way::kOut) {
        status = api_.ToStatus(
            api_.MemcpyDtoHAsync(piece.host.pointer(), piece.device.value(), ToDriver(piece.size), stream_),
            "cuMemcpyDtoHAsync");
      } else {
        status = api_.ToStatus(
            api_.MemcpyHtoDAsync(piece.device.value(), piece.host.pointer(), ToDriver(piece.size), stream_),
            "cuMemcpyHtoDAsync");
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  });
}

absl::Status HostCopies::Fill(Ranges ranges) {
  return OnStream([&] {
    for (const AddressRange& range : ranges) {
      absl::Status status = api_.ToStatus(
          api_.MemsetD8Async(range.address.value(), 0xFF, ToDriver(range.size), stream_), "cuMemsetD8Async");
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  });
}

void HostCopies::Drop(Ranges ranges) {
  for (const AddressRange& range : ranges) Forget(range.address, range.address + range.size);
  GiveBackPageable();
}

void HostCopies::KeepOnly(Ranges ranges) {
  std::vector<AddressRange> sorted(ranges.begin(), ranges.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.address < b.address; });
  Address end;
  for (const AddressRange& range : sorted) {
    Forget(end, range.address);
    end = range.address + range.size;
  }
  Forget(end, Address(std::numeric_limits<uint64_t>::max()));
  GiveBackPageable();
}

void HostCopies::Forget(Address from, Address to) {
  for (auto copy = FirstBehind(copies_, from); copy != copies_.end() && copy->first < to;) {
    const auto [start, was] = *copy;
    copy = copies_.erase(copy);
    const Address end = start + was.size;
    const Address first = std::max(start, from);
    const Address last = std::min(end, to);
    pool_.Return({was.host + (first - start), last - first});
    if (start < first) copies_[start] = {first - start, was.host};
    if (last < end) copies_[last] = {end - last, was.host + (last - start)};
  }
}

void HostCopies::GiveBackPageable() { static_cast<void>(pool_.ReleaseIdle(Kind::kPageable)); }

absl::Status HostCopies::Trim() {
  if (stream_ == nullptr && host() == Bytes(0)) return absl::OkStatus();
  return InDriver([&] { return TrimInDriver(); });
}

absl::Status HostCopies::TrimInDriver() {
  absl::Status first = pool_.ReleaseIdle(Kind::kPinned);
  // Waking must not lack them.
  if (pool_.held(Kind::kPageable) == Bytes(0)) first.Update(ring_.GiveBack());
  // Where something is left the stream stays, by which Trim() knows.
  if (!first.ok() || !copies_.empty() || stream_ == nullptr) return first;
  absl::Status status = api_.ToStatus(api_.StreamDestroy(stream_), "cuStreamDestroy");
  if (status.ok()) stream_ = nullptr;
  return status;
}

}  // namespace frugal
