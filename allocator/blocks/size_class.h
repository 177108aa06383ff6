// Which blocks may share a page: those of one class of sizes, on one stream.

#ifndef FRUGAL_ALLOCATOR_BLOCKS_SIZE_CLASS_H_
#define FRUGAL_ALLOCATOR_BLOCKS_SIZE_CLASS_H_

#include <cstdint>

#include "allocator/blocks/statistics.h"
#include "allocator/port/units.h"

namespace frugal {

// A block that stays keeps the whole of the page that it lies in, so it should not lie among larger ones that go.
enum class SizeClass : uint8_t {
  kSmall,   // up to kHalfPageLimit
  kMiddle,  // up to kSmallLimit
  kLarge,
};

inline SizeClass ClassOf(Bytes size) {
  if (size > kSmallLimit) return SizeClass::kLarge;
  return size > kHalfPageLimit ? SizeClass::kMiddle : SizeClass::kSmall;
}

inline SizeGroup GroupOf(SizeClass size_class) {
  return size_class == SizeClass::kLarge ? SizeGroup::kLarge : SizeGroup::kSmall;
}

}  // namespace frugal

#endif  // FRUGAL_ALLOCATOR_BLOCKS_SIZE_CLASS_H_
