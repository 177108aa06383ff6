// The device's virtual addresses: ranges of the host's own address space, so that host code can stand in for kernels.

#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/sparse_file.h"

namespace frugal::sim {

// Addresses come from a few large chunks that are reserved with the host once, so that to reserve costs no system
// call. What nothing is attached to faults on access. Thread-safe.
class AddressSpace {
 public:
  // Numbered as CUmemAccess_flags.
  enum class Access { kNone = 0, kRead = 1, kReadWrite = 3 };

  // Of all that is reserved at a time, `most` bytes.
  explicit AddressSpace(Bytes most = kUnlimited) : most_(most) {}
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // `size` and `alignment` are multiples of kPageSize, the alignment a power of two. At `wish`, if that is free and
  // fits. nullopt if the host has no such room, or the limit is reached.
  std::optional<Address> Reserve(Bytes size, Bytes alignment, Address wish);
  // Of a whole range that Reserve() returned, with nothing attached.
  void Unreserve(Address start, Bytes size);

  // Puts `range` behind [start, start + size). Without a file, or with Access::kNone, the addresses fault as before.
  // kMapFailed if the host refuses (it allows a process vm.max_map_count mappings); nothing has changed then.
  Error Attach(Address start, Bytes size, const FileRange& range, Access access);
  // Makes [start, start + size) fault again.
  Error Detach(Address start, Bytes size);

 private:
  struct Chunk {
    Address start;
    Bytes size;
  };

  static constexpr Bytes kChunkSize = GiB(4096);

  std::optional<Address> TakeFreeOrChunk(Bytes size, Bytes alignment, Address wish);
  std::optional<Address> TakeFree(Bytes size, Bytes alignment, Address wish);
  std::optional<Address> TakeAt(std::map<Address, Bytes>::iterator free, Address start, Bytes size);
  bool AddChunk(Bytes size);

  const Bytes most_;

  std::mutex mutex_;
  Bytes reserved_;
  std::vector<Chunk> chunks_;
  std::map<Address, Bytes> free_;  // Neighbours are always joined.
};

}  // namespace frugal::sim
