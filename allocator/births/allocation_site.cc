#include "allocator/births/allocation_site.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace frugal {
namespace {

constexpr size_t kSmallSizes = static_cast<size_t>(kSampleInterval.count() / kGrain.count());

std::array<Bytes, kSmallSizes> MakeEstimates() {
  std::array<Bytes, kSmallSizes> estimates;
  for (size_t grains = 1; grains < kSmallSizes; ++grains) {
    const double size = static_cast<double>(grains) * static_cast<double>(kGrain.count());
    const double chance = -std::expm1(-size / static_cast<double>(kSampleInterval.count()));
    estimates[grains] = Bytes(std::lround(size / chance));
  }
  return estimates;
}

}  // namespace

Bytes EstimateOf(Bytes size) {
  static const std::array<Bytes, kSmallSizes> estimates = MakeEstimates();
  return estimates[std::min(static_cast<size_t>(size.count() / kGrain.count()), kSmallSizes - 1)];
}

}  // namespace frugal
