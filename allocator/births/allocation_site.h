// What part of the program an allocation belongs to: a number, for whoever names sites.

#pragma once

#include <cstdint>

#include "allocator/port/units.h"

namespace frugal {

enum class SiteId : uint32_t {};

// Of what nobody named.
inline constexpr SiteId kNoSite{0};
// The allocation is not recorded.
inline constexpr SiteId kUnsampled{UINT32_MAX};

// How an allocation is recorded.
struct Sample {
  SiteId site = kUnsampled;
  // The block was picked out of many small ones and stands for them, too: see EstimateOf.
  bool stands_for_others = false;
};

// Blocks of at least so much are all recorded. Of smaller ones it may be one for each so many bytes, on average, drawn
// as a Poisson process: so every byte has the same chance, and no rhythm of a program can hide from it.
inline constexpr Bytes kSampleInterval = KiB(256);

// The bytes that a recorded block of `size` < kSampleInterval stands for, itself included: its size by its chance.
Bytes EstimateOf(Bytes size);

}  // namespace frugal
