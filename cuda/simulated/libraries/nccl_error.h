// What ncclGetLastError() says.

#ifndef FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_ERROR_H_
#define FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_ERROR_H_

#include <string>

#include "cuda/simulated/libraries/nccl_types.h"

namespace frugal::sim::nccl {

// Notes it, for all threads, and returns `result`.
Result Explain(Result result, const std::string& problem);
// Never null, and valid for ever.
const char* LastError();

}  // namespace frugal::sim::nccl

#endif  // FRUGAL_CUDA_SIMULATED_LIBRARIES_NCCL_ERROR_H_
