// Which physical memory was where, and who took it away: what late work is checked against when it runs.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "allocator/port/units.h"
#include "simulated_gpu/machine/clock.h"

namespace frugal::sim {

// What an operation does to a range of memory.
struct MemoryUse {
  Address start;
  Bytes size;
  bool writes = false;
  // It must be a GPU's memory; otherwise the host's, of which nothing is kept, will do.
  bool must_be_mapped = false;
};

// Where physical memory is: a GPU, and an offset that is never used twice.
struct PhysicalPlace {
  int gpu;
  int64_t offset;
};

// As reports have it: "0x7f3a00200000".
std::string Hex(Address address);

// Thread-safe; calls only the clock.
class MappingLog {
 public:
  explicit MappingLog(const Clock& clock) : clock_(clock) {}
  MappingLog(const MappingLog&) = delete;
  MappingLog& operator=(const MappingLog&) = delete;

  void Map(Address start, Bytes size, PhysicalPlace physical);
  // [start, start + size), of which whole views are gone now.
  void Unmap(Address start, Bytes size);

  // A moment between two changes, later than those before it.
  uint64_t now() const;
  // What has happened since `moment` to memory that `use` touches and that was there then, or that there is none:
  // "memory at 0x... was unmapped by thread 2 at 17000 ns". nullopt if it is as it was.
  std::optional<std::string> WhatHappened(const MemoryUse& use, uint64_t moment) const;
  size_t removals() const;
  // Nobody will ask about moments before this one.
  void ForgetBefore(uint64_t moment);

 private:
  struct View {
    Bytes size;
    PhysicalPlace physical;
    // Who mapped it, and when.
    uint64_t thread;
    Nanoseconds time;
  };
  struct Removal {
    uint64_t moment;
    Address start;
    View view;
    uint64_t thread;
    Nanoseconds time;
  };
  using Views = std::map<Address, View>;

  // The following need the lock.
  Views::const_iterator FirstTouching(Address start) const;
  std::optional<std::string> WhatHappened(const MemoryUse& use, const Removal& removal) const;
  Bytes Mapped(const MemoryUse& use) const;

  const Clock& clock_;

  mutable std::mutex mutex_;
  Views views_;
  std::deque<Removal> removals_;  // The oldest first.
  uint64_t moment_ = 0;
};

}  // namespace frugal::sim
