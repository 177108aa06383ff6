// The blocks that are handed out, as the program that asked for them knows them.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "allocator/device_allocator.h"
#include "allocator/port/device.h"
#include "allocator/port/units.h"
#include "tests/shadow/memory_model.h"
#include "tests/shadow/stream_order.h"
#include "tests/shadow/verdict.h"

namespace frugal::shadow {

struct LiveBlock {
  Address address;
  Bytes size;
  Bytes requested;
  Stream stream;
  std::array<bool, kStreams> used_by = {};
  uint8_t tag = 0;
  bool is_asleep = false;
  MemoryModel::Parts lacking = {};  // has no memory
};

// An annotation that names the block.
inline void* AnnotationOf(uint32_t name) { return reinterpret_cast<void*>(uintptr_t{name} + 1); }
inline uint32_t NameOf(const void* annotation) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(annotation) - 1);
}

// Not thread-safe.
class LiveBlocks {
 public:
  // REQUIRES: none has the name.
  void Add(uint32_t name, const LiveBlock& block);
  // REQUIRES: it is there.
  LiveBlock Remove(uint32_t name);
  // nullptr: none has the name.
  LiveBlock* Find(uint32_t name);
  const LiveBlock* Find(uint32_t name) const;

  absl::Span<const uint32_t> names() const { return names_; }
  int64_t count() const { return static_cast<int64_t>(names_.size()); }
  Bytes bytes() const { return bytes_; }
  Bytes requested() const { return requested_; }
  // The most bytes since the last ResetPeak().
  Bytes peak() const { return peak_; }
  void ResetPeak() { peak_ = bytes_; }

  // Whether the allocator's snapshot has these blocks, and its segments have no gap. `may_have_spares`: a driver call
  // has failed, so that memory may be held that is nowhere mapped.
  void CheckSnapshot(const DeviceAllocator& allocator, bool may_have_spares, Verdict& verdict) const;
  // Where a request is refused: whatever its size class, a free block of the stream would have served it.
  // What is asked for in a segment, only one of cudaMalloc's memory would have.
  static void CheckNothingFits(const DeviceAllocator& allocator, Bytes size, Stream stream, MemorySource source,
                               Verdict& verdict);

 private:
  struct Placed {
    LiveBlock block;
    size_t index;  // in names_
  };

  std::vector<uint32_t> names_;
  absl::flat_hash_map<uint32_t, Placed> blocks_;
  Bytes bytes_;
  Bytes requested_;
  Bytes peak_;
};

}  // namespace frugal::shadow
