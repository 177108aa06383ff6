// Copies of a GPU's memory in the host's, for what sleeps (allocator/sleep.h).

#pragma once

#include <cuda.h>

#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/port/address_range.h"
#include "allocator/port/units.h"
#include "cuda/copy_ring.h"
#include "cuda/driver_api.h"
#include "cuda/driver_times.h"
#include "cuda/host_pool.h"
#include "cuda/unified_memory.h"

namespace frugal {

// Ranges lie in memory that is mapped and accessible, and those of one call do not overlap. No work of the GPU may use
// them meanwhile: copies run on a stream of their own, which waits for no other.
//
// Pinned memory is kept once no copy lies in it, until Trim(), since pinning is what costs most. Pageable memory goes
// back with the last copy that lies in it.
//
// Thread-safety: any thread, but calls must not overlap. None depends on the context or the stream capture mode of the
// calling thread, nor changes them for the caller.
class HostCopies {
 public:
  using Kind = HostPool::Kind;
  using Ranges = absl::Span<const AddressRange>;

  // `context`: the device's primary one. All three outlive the object.
  HostCopies(const DriverApi& api, CUcontext context, DriverTimes& times,
             UnifiedMemory::FileReader read = UnifiedMemory::ReadFile);
  ~HostCopies();
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  // Host memory for copies of all these ranges, and what else CopyOut() and CopyIn() need; on an error nothing is
  // taken. kResourceExhausted: the host has less to spare, which the message says; a part of it is left alone
  // (UnifiedMemory::kReservedPart).
  absl::Status Reserve(Ranges ranges, Kind kind);
  // Copies them to the memory that the latest Reserve() took, in the place of earlier copies, and waits. On an error
  // there is no copy of these ranges.
  absl::Status CopyOut(Ranges ranges);
  // Copies back what there is of these ranges, waits, and keeps the copies. Returns how much that was. On an error some
  // may have been copied.
  absl::StatusOr<Bytes> CopyIn(Ranges ranges);
  // Copies to the host what there is of this range, each byte as far behind `to` as it lies behind the range's begin.
  // Returns how much that was.
  Bytes Read(AddressRange range, char* to) const;
  // Whether there is a copy of each byte of it.
  bool Covers(AddressRange range) const;
  // There are no copies of these ranges any more.
  void Drop(Ranges ranges);
  // There are copies of these ranges alone.
  void KeepOnly(Ranges ranges);
  // Fills them with 0xFF, which is NaN in every floating-point type, and waits.
  absl::Status Fill(Ranges ranges);
  // Pinned memory in which no copy lies goes back. What the driver fails with stays, for the next time.
  absl::Status Trim();

  // Of the host's memory, what is held for copies, whether any lie in it or not.
  Bytes host() const { return pinned() + pool_.held(Kind::kPageable); }
  Bytes pinned() const { return pool_.held(Kind::kPinned) + ring_.size(); }

 private:
  struct Copy {
    Bytes size;
    Address host;
  };
  // Of a range, what lies in one copy.
  struct Piece {
    Address device;
    Address host;
    Bytes size;
  };
  enum class Way { kOut, kIn };

  // Calls `call` in a DriverScope.
  template <typename Call>
  absl::Status InDriver(Call call);
  absl::Status MakeStream();
  absl::Status Wait();
  // `enqueue` puts work on the stream, for which the host then waits, whether it failed or not.
  template <typename Enqueue>
  absl::Status OnStream(Enqueue enqueue);
  std::vector<Piece> CopiesOf(Ranges ranges) const;
  absl::Status Transfer(const std::vector<Piece>& pieces, Way way);
  // Their memory is free then.
  void Forget(Address from, Address to);
  void GiveBackPageable();
  absl::Status TrimInDriver();

  const DriverApi& api_;
  const CUcontext context_;
  DriverTimes& times_;
  CUstream stream_ = nullptr;
  HostPool pool_;
  CopyRing ring_;
  // By the device's address.
  std::map<Address, Copy> copies_;
  // Of the latest Reserve().
  Kind kind_ = Kind::kPinned;
};

}  // namespace frugal
