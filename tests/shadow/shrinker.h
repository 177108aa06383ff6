// Makes a failing program small.

#pragma once

#include "absl/functional/function_ref.h"
#include "tests/shadow/operation.h"

namespace frugal::shadow {

// A program that fails as `program` does, of which no operation can be left out and no number made simpler, or what was
// reached in `most_runs`. First ever smaller chunks are taken out, then single operations, then numbers become simpler;
// again, as long as something helps. At last the blocks are numbered from 1.
Program Shrink(Program program, absl::FunctionRef<bool(const Program&)> fails, int most_runs = 4000);

}  // namespace frugal::shadow
