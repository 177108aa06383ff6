// Host memory that the GPU may reach: pinned allocations, and memory of the program's that it has registered.

#pragma once

#include <map>
#include <mutex>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/error.h"
#include "simulated_gpu/machine/unified_host.h"

namespace frugal::sim {

// Thread-safe.
class HostMemory {
 public:
  // Where the GPU's memory is a `host`'s, what is allocated here is taken of that. May be null.
  explicit HostMemory(UnifiedHost* host = nullptr) : host_(host) {}

  Error Allocate(Bytes size, void** start);
  Error Free(void* start);
  Error Register(void* start, Bytes size);
  Error Unregister(void* start);

  bool Contains(const void* address) const;

 private:
  struct Range {
    Bytes size;
    bool registered;  // Else allocated here.
  };

  // What Allocate() makes, or nullptr, and how it goes.
  void* Map(Bytes size);
  void Unmap(void* start, Bytes size);

  UnifiedHost* const host_;
  mutable std::mutex mutex_;
  std::map<Address, Range> ranges_;
};

}  // namespace frugal::sim
