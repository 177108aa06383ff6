// Host memory for copies of a GPU's: pinned, which the GPU copies to and from by itself, or pageable.

#pragma once

#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/port/address_range.h"
#include "allocator/port/units.h"
#include "cuda/address_ranges.h"
#include "cuda/driver_api.h"
#include "cuda/unified_memory.h"

namespace frugal {

// In chunks, so that an amount is had of what is free in several, and idle ones go back one by one. The methods that
// may call the driver are called in a DriverScope. Not thread-safe.
class HostPool {
 public:
  enum class Kind { kPinned, kPageable };

  // Pinning takes a call for each chunk, beside what its pages cost: so they are large. The last one of an amount is as
  // small as it can be.
  static constexpr Bytes kChunk = MiB(64);

  HostPool(const DriverApi& api, UnifiedMemory::FileReader read) : api_(api), read_(std::move(read)) {}
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  // `size` of this kind is free from now on; idle memory of the other kind goes back if that takes more. On an error
  // none was taken. kResourceExhausted: the host has too little to spare, of which a part is left alone
  // (UnifiedMemory::kReservedPart).
  absl::Status Grow(Bytes size, Kind kind);
  // At most `most` of what is free, in one piece; empty: nothing of this kind is free.
  AddressRange Take(Kind kind, Bytes most);
  void Return(AddressRange taken);
  // REQUIRES: of a piece that was taken.
  Kind KindOf(Address taken) const { return Around(taken).kind; }
  // Chunks of which nothing is taken go back. Those that cannot stay free; the first error.
  absl::Status ReleaseIdle(Kind kind);

  Bytes held(Kind kind) const { return held_[Index(kind)]; }

 private:
  struct Chunk {
    Kind kind;
    Address end;
  };

  static size_t Index(Kind kind) { return static_cast<size_t>(kind); }
  const Chunk& Around(Address address) const { return std::prev(chunks_.upper_bound(address))->second; }
  // What the host can spare; kUnlimited: the kernel does not say.
  Bytes Room() const;
  absl::Status Add(Bytes size, Kind kind);
  absl::Status GiveBack(Address start, const Chunk& chunk);

  const DriverApi& api_;
  const UnifiedMemory::FileReader read_;
  std::map<Address, Chunk> chunks_;
  // By kind.
  std::array<AddressRanges, 2> free_;
  std::array<Bytes, 2> held_;
};

}  // namespace frugal
