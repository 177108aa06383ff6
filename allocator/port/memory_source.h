// Which memory a request is served from.

#pragma once

#include <cstdint>
#include <utility>

#include "allocator/port/pool_id.h"

namespace frugal {

enum class MemoryKind : uint8_t {
  kMovable,  // handles that are mapped into reserved addresses; on a device without virtual memory segments
  kFixed,    // the same, but handles stay below what a pool has handed out while graphs may read it; see KeptPools
  kSegment,  // pieces of cudaMalloc, mapped for good, which other processes and libraries can open
};

constexpr bool IsMapped(MemoryKind kind) { return kind != MemoryKind::kSegment; }

// Free memory of a pool serves that pool alone. A request for mapped memory gets a free part of a segment before it
// fails. A request for a segment never gets mapped memory.
struct MemorySource {
  PoolId pool = {};
  MemoryKind kind = MemoryKind::kMovable;

  friend constexpr bool operator==(MemorySource, MemorySource) = default;
  template <typename H>
  friend H AbslHashValue(H h, MemorySource source) {
    return H::combine(std::move(h), source.pool, source.kind);
  }
};

}  // namespace frugal
