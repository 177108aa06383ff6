// How long each call of the driver takes: the one table that the planner, the simulated GPU and the documents use.
//
// The figures are published and observed ones for recent data-centre GPUs. An H200 took less: .6 of them to make a
// handle visible, as much to take it away (docs/gpu_results.md). Where `frugal-alloc doctor --gpu` has measured a
// machine's, they take their place (setting driver_costs).

#pragma once

#include <cstdint>

#include "allocator/port/units.h"

namespace frugal {

// X(name, nanoseconds, what it is for)
#define FRUGAL_DRIVER_COSTS(X)                                        \
  X(create, 25'000, "a handle of any size")                           \
  X(create_mebibyte, 2'000, "and for each MiB of it")                 \
  X(map, 2'000, "a handle")                                           \
  X(set_access, 37'000, "each handle in the range, for each GPU")     \
  X(unmap, 30'000, "each handle in the range")                        \
  X(release, 23'000, "a handle")                                      \
  X(reserve, 5'000, "a range of addresses, and to give it back")      \
  X(malloc, 100'000, "a segment of any size")                         \
  X(malloc_mebibyte, 2'000, "and for each MiB of it")                 \
  X(free, 200'000, "a segment; the wait for the device comes on top") \
  X(memory_info, 8'000, "how much is free")                           \
  X(event_record, 1'000, "an event put into a stream")                \
  X(event_query, 500, "whether an event has passed")                  \
  X(stream_wait, 1'000, "a stream told to wait for an event")

// In nanoseconds.
struct DriverCosts {
#define FRUGAL_DECLARE_COST(name, figure, what) int64_t name = figure;
  FRUGAL_DRIVER_COSTS(FRUGAL_DECLARE_COST)
#undef FRUGAL_DECLARE_COST

  constexpr int64_t Create(Bytes size) const { return create + ByMebibyte(size, create_mebibyte); }
  constexpr int64_t Malloc(Bytes size) const { return malloc + ByMebibyte(size, malloc_mebibyte); }
  // A handle that exists, made visible at a page.
  constexpr int64_t MapOne() const { return map + set_access; }

  friend constexpr bool operator==(const DriverCosts&, const DriverCosts&) = default;

 private:
  static constexpr int64_t ByMebibyte(Bytes size, int64_t each) {
    return static_cast<int64_t>(static_cast<double>(size.count()) / static_cast<double>(MiB(1).count()) *
                                static_cast<double>(each));
  }
};

}  // namespace frugal
