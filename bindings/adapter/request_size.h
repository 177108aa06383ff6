// How large a block a request for memory gets.

#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "allocator/port/units.h"
#include "bindings/adapter/torch_compat.h"

namespace frugal {

[[noreturn]] C10_NOINLINE inline void RefuseSize() {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate more than 1EB memory.");
}

// To the next of the steps that roundup_power2_divisions cuts each interval between powers of two into.
C10_NOINLINE inline size_t RoundUpToDivision(size_t size, size_t divisions) {
  const size_t step = std::max(std::bit_floor(size) / divisions, size_t{1});
  return (size + step - 1) / step * step;
}

// Throws c10::OutOfMemoryError above the size at which PyTorch's own allocator does not even try.
inline void CheckSize(size_t size) {
  constexpr size_t kExbibyte = size_t{1} << 60;
  if (C10_UNLIKELY(size >= kExbibyte)) RefuseSize();
}

// The size of the block for a request: what it asks for, unless PyTorch was told roundup_power2_divisions, which may
// change at any time. Costs what it costs native, three percent of an allocation.
C10_ALWAYS_INLINE Bytes RoundUpAsTold(size_t size) {
  const size_t divisions = RoundUpDivisions(size);
  const bool as_asked = C10_LIKELY(divisions <= 1) || size <= divisions * static_cast<size_t>(kGrain.count());
  return Bytes(static_cast<int64_t>(as_asked ? size : RoundUpToDivision(size, divisions)));
}

}  // namespace frugal
