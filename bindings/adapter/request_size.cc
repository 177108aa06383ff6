#include "bindings/adapter/request_size.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>

namespace frugal {

C10_NOINLINE void RefuseSize() {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate more than 1EB memory.");
}

C10_NOINLINE size_t RoundUpToDivision(size_t size, size_t divisions) {
  const size_t step = std::max(std::bit_floor(size) / divisions, size_t{1});
  return (size + step - 1) / step * step;
}

}  // namespace frugal
