#ifndef FRUGAL_TESTS_SHADOW_TALLY_H_
#define FRUGAL_TESTS_SHADOW_TALLY_H_

#include <cstdint>

#include "tests/shadow/mapped_memory.h"

namespace frugal::shadow {

// How much was done, in all.
struct Tally {
  int64_t operations = 0;
  int64_t allocations = 0;
  int64_t out_of_memory = 0;
  int64_t faults = 0;
  int64_t device_calls = 0;
  int64_t stitches = 0;
  LargeHandles large;  // handles of more than one page

  Tally& operator+=(const Tally& other) {
    operations += other.operations;
    allocations += other.allocations;
    out_of_memory += other.out_of_memory;
    faults += other.faults;
    device_calls += other.device_calls;
    stitches += other.stitches;
    large += other.large;
    return *this;
  }
};

}  // namespace frugal::shadow

#endif  // FRUGAL_TESTS_SHADOW_TALLY_H_
