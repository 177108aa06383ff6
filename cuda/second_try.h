// A second try of what failed.

#pragma once

#include "absl/status/status.h"

namespace frugal {

// What fails once is tried once more. For what is done here and there only; the allocator sees to its own calls.
template <typename Call>
absl::Status MakeUpForOneFailure(Call call) {
  const absl::Status status = call();
  return status.ok() ? status : call();
}

}  // namespace frugal
